/** The session of a client and the one that follows it: credentials expire, and a server may refuse them before that. */
import { Secrets } from "../../log/secrets.ts";
import type { ApiConfig } from "../config/api-config.ts";
import { openSession, type Session } from "./session.ts";

export class Sessions {
  /** What was told and must not be told on, for ever: a server may repeat it late. */
  readonly secrets = new Secrets();
  #config: ApiConfig;
  #session: Session | undefined;
  #opening: Promise<Session> | undefined;
  #isClosed = false;

  /** Nothing is connected, and no credential plugin run, before the first `current`. */
  constructor(config: ApiConfig) {
    this.#config = config;
  }

  get config(): ApiConfig {
    return this.#config;
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** @throws TortieError `credentials-failed` */
  async current(): Promise<Session> {
    return this.#session !== undefined && !isExpired(this.#session) ? this.#session : await this.#open(this.#session);
  }

  /** Reads the credentials again that the server refused, unless another request has seen to it. @throws TortieError */
  async renew(refused: Session): Promise<void> {
    if (this.#session !== refused) return;
    if (this.#opening === undefined) this.#config = this.#config.reload();
    await this.#open(refused);
  }

  close(): void {
    this.#isClosed = true;
    this.#session?.transport.close();
  }

  /** One new session for all that wait for one. @throws TortieError */
  #open(former: Session | undefined): Promise<Session> {
    this.#opening ??= openSession(this.#config, former)
      .then((session) => {
        this.#session = session;
        this.#keepSecret(session);
        if (this.#isClosed) session.transport.close();
        return session;
      })
      .finally(() => {
        this.#opening = undefined;
      });
    return this.#opening;
  }

  #keepSecret({ config, headers, certificate }: Session): void {
    for (const [name, value] of headers) if (name === "Authorization") this.secrets.addAuthorization(value);
    this.secrets.addKey(certificate?.key);
    this.secrets.addPasswordOf(config.proxy);
  }
}

function isExpired({ expiresAt }: Session): boolean {
  return expiresAt !== undefined && expiresAt <= Date.now();
}
