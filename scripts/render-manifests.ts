/**
 * Makes one file for `kubectl apply`: `bash scripts/render-manifests` writes manifests/tortie.yaml; with an overlay's name it prints that,
 * with a registry's too (`bash scripts/render-manifests alone registry.example`) as nodes pull the image from there.
 */
import { writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { renderFolder } from "./manifests/kustomization.ts";

export const RENDERED = "manifests/tortie.yaml";

/** @param overlay a folder below manifests/overlays @param registry absent: the image has no registry */
export function renderOverlay(overlay: string, registry?: string): string {
  const documents = renderFolder(resolve("manifests/overlays", overlay)).map((object) => Bun.YAML.stringify(object, undefined, 2));
  const head = `# Made by scripts/render-manifests from manifests/overlays/${overlay}; change that, not this.\n`;
  const text = `${head}${documents.map((document) => document.trimEnd()).join("\n---\n")}\n`;
  return registry === undefined ? text : text.replaceAll(/^( *)image: "?(tortie:[^"\n]+)"?$/gm, `$1image: "${registry}/$2"`);
}

if (import.meta.main) {
  const [overlay, registry] = process.argv.slice(2);
  if (overlay === undefined) writeFileSync(RENDERED, renderOverlay("alone"));
  else process.stdout.write(renderOverlay(overlay, registry));
}
