/** Certificate authorities for tests of TLS, and what they sign; all made by openssl. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export interface KeyPair {
  /** PEM texts. */
  readonly certificate: string;
  readonly key: string;
}

const dirs: string[] = [];
afterAll(() => {
  for (const dir of dirs.splice(0)) rmSync(dir, { recursive: true });
});

/** Its files are gone when the suite that made it ends. */
export class TestAuthority {
  readonly #dir = mkdtempSync(join(tmpdir(), "tortie-tls-"));
  readonly certificate: string;
  #count = 0;

  constructor(name = "test-authority") {
    dirs.push(this.#dir);
    this.#makeKey("ca");
    this.#openssl("req", "-x509", "-new", "-key", "ca.key", "-subj", `/CN=${name}`, "-days", "2", "-out", "ca.crt");
    this.certificate = this.#read("ca.crt");
  }

  /**
   * @param names as openssl writes them: "IP:127.0.0.1,DNS:localhost"; `undefined`: none
   * @param days may be negative: it has expired
   * @param purpose "clientAuth": it is no server's
   */
  issue(subject: string, names: string | undefined, days = 2, purpose?: string): KeyPair {
    const base = `leaf${this.#count++}`;
    this.#makeKey(base);
    const extensions = [names && `subjectAltName=${names}`, purpose && `extendedKeyUsage=${purpose}`];
    writeFileSync(join(this.#dir, `${base}.ext`), `basicConstraints=CA:FALSE\n${extensions.filter(Boolean).join("\n")}\n`);
    this.#openssl("req", "-new", "-key", `${base}.key`, "-subj", subject, "-out", `${base}.csr`);
    const signer = ["-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial"];
    this.#openssl("x509", "-req", "-in", `${base}.csr`, ...signer, "-days", String(days), "-extfile", `${base}.ext`, "-out", `${base}.crt`);
    return { certificate: this.#read(`${base}.crt`), key: this.#read(`${base}.key`) };
  }

  #makeKey(base: string): void {
    this.#openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", `${base}.key`);
  }

  #read(file: string): string {
    return readFileSync(join(this.#dir, file), "utf8");
  }

  #openssl(...args: string[]): void {
    execFileSync("openssl", args, { cwd: this.#dir, stdio: ["ignore", "ignore", "pipe"] });
  }
}
