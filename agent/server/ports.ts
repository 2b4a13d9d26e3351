/** What the operations need of the rest of the agent; the composition root plugs it in. */

import type { EndpointRecord } from "../../handover/record.ts";
import type { EndpointChangeRequest } from "../api/endpoint-models.ts";
import type { IpamResponse, IpamStatus } from "../api/ipam-models.ts";
import type { ControllerModel, DaemonConfiguration, MetricModel, StatusResponse } from "../api/models.ts";
import type { ShownEndpoint } from "./endpoint-model.ts";

export interface NodePort {
  configuration(): DaemonConfiguration;
  /** @throws TortieError `option-invalid` for what cannot be changed while the agent runs */
  configure(options: Readonly<Record<string, string>>): void;
  health(): Promise<StatusResponse>;
  controllers(): readonly ControllerModel[];
  metrics(): Promise<readonly MetricModel[]>;
  metricsText(): Promise<string>;
}

export interface EndpointsPort {
  /** Those whose ADD is done, in the order of their ids. */
  endpoints(): readonly ShownEndpoint[];
  /** Those under way too, in the order of their ids. */
  all(): readonly ShownEndpoint[];
  /** @throws TortieError `endpoint-name-invalid`, `endpoint-unknown`, `endpoint-ambiguous` */
  named(name: string): ShownEndpoint;
  /** What the kernel says of an endpoint that is being restored: its link is up and has its addresses. */
  isConnected(record: EndpointRecord): Promise<boolean>;
  /** Asks for a build; a level of 1 to 4. */
  build(id: number, level: number, reason: string): void;
  /** @throws TortieError `endpoint-differs`, `address-taken`, `call-invalid` */
  register(request: EndpointChangeRequest): Promise<{ readonly isNew: boolean; readonly endpoint: ShownEndpoint }>;
  /** @throws TortieError `endpoint-immutable` */
  change(id: number, request: EndpointChangeRequest): Promise<ShownEndpoint>;
  /** Always removes; what fails is repeated. @returns the number of errors met */
  remove(id: number): Promise<number>;
}

export interface IpamPort {
  /** Both families or none. @throws TortieError `addresses-exhausted`, `family-disabled` */
  grant(family: "ipv4" | "ipv6" | undefined, owner: string, expires: boolean): Promise<IpamResponse>;
  /** @throws TortieError `address-taken`, `address-outside-pools`, `address-excluded`, `family-disabled`, `call-invalid` */
  grantAddress(address: string, owner: string): Promise<IpamResponse>;
  /** @throws TortieError `address-not-assigned`, `owner-conflict`, `call-invalid` */
  release(address: string, by: { readonly owner?: string; readonly token?: string }): Promise<void>;
  dump(): Promise<IpamStatus>;
}
