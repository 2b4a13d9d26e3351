/**
 * Writes krew's manifest of the plugin: `bash scripts/bun scripts/client/krew.ts FOLDER URL`, for the archives in the folder as they can be
 * downloaded below the URL (https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest).
 */
import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { stringify } from "yaml";
import { VERSION_OF_PACKAGE } from "../image/archive.ts";

const ARCHIVE = /^kubectl-tortie-(linux|darwin)-(amd64|arm64)\.tar\.gz$/;

const [folder = ".", url = ""] = process.argv.slice(2);
const platforms = readdirSync(folder)
  .sort()
  .flatMap((name) => {
    const [, os, arch] = ARCHIVE.exec(name) ?? [];
    if (os === undefined) return [];
    const sha256 = createHash("sha256")
      .update(readFileSync(join(folder, name)))
      .digest("hex");
    return [{ selector: { matchLabels: { os, arch } }, uri: `${url}/${name}`, sha256, bin: "kubectl-tortie" }];
  });
process.stdout.write(
  stringify({
    apiVersion: "krew.googlecontainertools.github.com/v1alpha2",
    kind: "Plugin",
    metadata: { name: "tortie" },
    spec: {
      version: `v${VERSION_OF_PACKAGE}`,
      shortDescription: "Explain pods' addresses and networks in a tortie cluster",
      description:
        "Shows the pods' addresses, blocks and problems of a cluster with the tortie container network,\nand asks the agents of its nodes what is wrong and what to do next.\n",
      caveats: "doctor and explain run tortiectl in the agents' pods: the account needs get and create of pods/exec there.\n",
      platforms,
    },
  }),
);
