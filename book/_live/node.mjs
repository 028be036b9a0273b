// Runs the page's own runtime outside of a page: in a context that has what browsers have, and no
// more. `node node.mjs FOLDER` loads FOLDER/runtime.js and FOLDER/memmodel.js, then answers each
// line of stdin with one line: a call ["module", "function", argument] gives the function's result.
// With --digest it gives the SHA-256 of the result, for those who compare thousands.
import { createHash } from "node:crypto";
import { createInterface } from "node:readline";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import vm from "node:vm";

const { atob, Blob, clearTimeout, console, DecompressionStream, performance, Response } = globalThis;
const { setTimeout, TextDecoder, TextEncoder, URL } = globalThis;
const page = vm.createContext({
  atob, Blob, clearTimeout, console, crypto: globalThis.crypto, DecompressionStream, performance,
  Response, setTimeout, TextDecoder, TextEncoder, URL,
});
vm.runInContext("globalThis.window = globalThis; addEventListener = () => {}", page);
for (const name of ["runtime.js", "memmodel.js"]) {
  vm.runInContext(readFileSync(join(process.argv[2], name), "utf8"), page, { filename: name });
}
// the stack alone: node would print the line at fault too, which is a megabyte long
const python = await page.memmodelRuntime.python().catch((error) => {
  process.stderr.write(String(error.stack));
  process.exit(1);
});
const functions = new Map();
const digest = process.argv.includes("--digest");
for await (const line of createInterface({ input: process.stdin })) {
  const [module, name, argument] = JSON.parse(line);
  const key = `${module}.${name}`;
  if (!functions.has(key)) functions.set(key, python.import(module)[name]);
  let answer;
  try {
    const result = functions.get(key)(argument);
    answer = { result: digest ? createHash("sha256").update(result).digest("hex") : result };
  } catch (error) {
    answer = { error: String(error.message) };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
