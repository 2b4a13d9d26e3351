/** The authority of the API server's certificate, in a file that kubeconfigs name, and another one in its place. */
import { copyFileSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { makeCertificates } from "../../support/kubernetes/credentials.ts";
import type { FaultProxy } from "../../support/kubernetes/fault-proxy.ts";

export class Authority {
  readonly #dir: string;
  readonly #proxy: FaultProxy;

  /** @param kubeconfigs as the harness writes them: the certificate itself is in them */
  constructor(directory: string, proxy: FaultProxy, kubeconfigs: readonly string[]) {
    this.#dir = directory;
    this.#proxy = proxy;
    copyFileSync(join(proxy.dir, "ca.crt"), this.#file);
    for (const path of kubeconfigs) {
      const config = JSON.parse(readFileSync(path, "utf8"));
      const [{ cluster }] = config.clusters;
      cluster["certificate-authority-data"] = undefined;
      cluster["certificate-authority"] = this.#file;
      writeFileSync(path, JSON.stringify(config));
    }
  }

  get #file(): string {
    return join(this.#dir, "ca.crt");
  }

  /** The server's new certificate is of a new authority, and the file has its certificate. */
  async replace(): Promise<void> {
    const made = mkdtempSync(join(this.#dir, "authority-"));
    makeCertificates(made);
    await this.#proxy.refuse();
    copyFileSync(join(made, "ca.crt"), this.#file);
    this.#proxy.certificates = made;
    await this.#proxy.accept();
  }
}
