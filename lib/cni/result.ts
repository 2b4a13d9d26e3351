/** Results of ADD: `parseResult` reads any version, `renderResult` writes any version; between them is the form of 1.1.0 (protocol.ts). */
export { parseResult } from "./parse-result.ts";
export { renderResult } from "./render-result.ts";
