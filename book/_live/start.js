// Boots CPython in the page and hands out one function: the figure's state in, its picture out.
//
// This is the small part of Pyodide's own loader that a figure needs: no packages from elsewhere,
// no event loop, no input. It takes everything from memory, so it also works from a file on disk,
// where a page may load scripts but not fetch data. The build puts it in front of the runtime.
"use strict";
(function () {
  const self = (globalThis.memmodelRuntime ??= {});

  // base64 of gzip -> a response, inflated by the browser while it is read.
  function unpack(text, type = "application/octet-stream") {
    const packed = Uint8Array.fromBase64 ? Uint8Array.fromBase64(text) : decode(atob(text));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream, { headers: { "Content-Type": type } });
  }

  function decode(text) {
    const bytes = new Uint8Array(text.length);
    for (let at = 0; at < bytes.length; at++) bytes[at] = text.charCodeAt(at);
    return bytes;
  }

  async function bytes(response) {
    return new Uint8Array(await response.arrayBuffer());
  }

  // The interpreter compiles while it is inflated; the package comes apart from it and from its
  // library, since it changes more often.
  self.python = async function () {
    const wasm = unpack(self.wasm, "application/wasm");
    const module = WebAssembly.compileStreaming
      ? WebAssembly.compileStreaming(wasm)
      : bytes(wasm).then(WebAssembly.compile);
    module.catch(() => {}); // whoever waits for it below hears of a failure
    const parts = [whole("runtime.js", self.library), whole("memmodel.js", self.source)];
    self.wasm = self.library = self.source = null; // frees the texts
    return boot(module, ...(await Promise.all(parts)));
  };

  // A part that cannot be unpacked did not arrive as it was built.
  async function whole(file, text) {
    try {
      return await bytes(unpack(text));
    } catch (error) {
      throw new Error(`the file ${file} is damaged (${error.message})`);
    }
  }

  // A line of JSON that names each file and its length, then the files one after another.
  function writeFiles(fs, bytes) {
    const head = bytes.indexOf(10);
    let at = head + 1;
    for (const [path, length] of JSON.parse(new TextDecoder().decode(bytes.subarray(0, head)))) {
      fs.mkdirTree(`/lib/book/${path}`.replace(/\/[^/]*$/, ""));
      fs.writeFile(`/lib/book/${path}`, bytes.subarray(at, at + length));
      at += length;
    }
  }

  async function boot(module, library, source) {
    const none = Symbol("no value"); // how the interpreter's C code sees a failed call of JavaScript
    const api = {
      config: { jsglobals: globalThis, env: {}, args: [], packages: [] },
      runtimeEnv: { IN_BROWSER: true, IN_BROWSER_MAIN_THREAD: true },
    };
    const output = [];
    const settings = {
      API: api,
      noImageDecoding: true,
      noAudioDecoding: true,
      arguments: [],
      print: (line) => output.push(line),
      printErr: (line) => output.push(line),
      onExit: (code) => (settings.exitCode = code),
      locateFile: (name) => name,
      instantiateWasm(imports, done) {
        imports.env.Jsv_GetError_import = () => none;
        imports.env.JsvError_Check = (value) => value === none;
        module
          .then(async (compiled) => done(await WebAssembly.instantiate(compiled, imports), compiled))
          .catch((error) => settings.failed(error));
        return {};
      },
      preRun: [
        (made) => {
          made.ENV.HOME = "/";
          made.ENV.PYTHONINSPECT = "1"; // initialise and return, instead of running a script
          const [major, minor] = [24, 16].map((shift) => (made.HEAPU32[made._Py_Version >>> 2] >>> shift) & 255);
          api.pyVersionTuple = [major, minor, 0];
          api.sitePackages = `/lib/python${major}.${minor}/site-packages`;
          made.FS.mkdirTree(api.sitePackages);
          made.FS.writeFile(`/lib/python${major}${minor}.zip`, library);
          writeFiles(made.FS, source);
        },
      ],
    };
    const broken = new Promise((_, reject) => (settings.failed = reject));
    try {
      await Promise.race([self.createModule(settings), broken]);
      if (settings.exitCode !== undefined) throw new Error(`Python ended with ${settings.exitCode}`);
      api.finalizeBootstrap();
      api.sys.path.append("/lib/book");
    } catch (error) {
      error.message += output.length ? `\n${output.join("\n")}` : "";
      throw error;
    }
    return { api, import: (name) => api.importlib.import_module(name) };
  }
})();
