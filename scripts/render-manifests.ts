/**
 * One file for `kubectl apply`: `bash scripts/render-manifests` writes manifests/tortie.yaml, with the name of an overlay it prints that.
 */
import { writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { renderFolder } from "./manifests/kustomization.ts";

export const RENDERED = "manifests/tortie.yaml";

/** @param overlay a folder below manifests/overlays */
export function renderOverlay(overlay: string): string {
  const documents = renderFolder(resolve("manifests/overlays", overlay)).map((object) => Bun.YAML.stringify(object, undefined, 2));
  const head = `# Made by scripts/render-manifests from manifests/overlays/${overlay}; change that, not this.\n`;
  return `${head}${documents.map((text) => text.trimEnd()).join("\n---\n")}\n`;
}

if (import.meta.main) {
  const [overlay] = process.argv.slice(2);
  if (overlay === undefined) writeFileSync(RENDERED, renderOverlay("alone"));
  else process.stdout.write(renderOverlay(overlay));
}
