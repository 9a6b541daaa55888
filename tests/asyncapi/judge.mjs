// Prints what the parser has against the document of the first argument, a line each, and
// ends with 1 if there is an error.
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { createRequire } from "node:module";

const { Parser } = createRequire(import.meta.url)("@asyncapi/parser");
const path = resolve(process.argv[2]);
const { document, diagnostics } = await new Parser().parse(readFileSync(path, "utf8"), { source: path });
for (const d of diagnostics) {
  console.log(["error", "warning", "information", "hint"][d.severity], d.code, "/" + d.path.join("/"), d.message);
}
process.exitCode = document ? 0 : 1;
