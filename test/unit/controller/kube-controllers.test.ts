/** Who counts as Calico's kube-controllers: whoever runs in its namespaces under its account, not whoever carries its label. */

import { KubeControllers } from "../../../controller/duties/duty.ts";
import { kubeControllersCheck } from "../../../controller/health.ts";
import { CONTROLLER } from "../../../controller/options.ts";
import { decodePodView, type PodView } from "../../../controller/view/cluster-view.ts";
import { resolveOptions } from "../../../lib/resident/options.ts";
import { controllerMetrics } from "../../support/controller-world.ts";

const NAME = "calico-kube-controllers";

interface Facts {
  readonly namespace?: string;
  readonly label?: string;
  readonly account?: string;
  readonly phase?: string;
}

function pod({ namespace = "kube-system", label = NAME, account = NAME, phase = "Pending" }: Facts = {}): PodView {
  return decodePodView({
    metadata: { namespace, name: "kc", uid: "u", labels: { "k8s-app": label } },
    spec: { serviceAccountName: account },
    status: { phase },
  });
}

function deployment(account = NAME, replicas?: number): object {
  const spec = { template: { spec: { serviceAccountName: account } }, ...(replicas === undefined ? {} : { replicas }) };
  return { metadata: { name: "kc" }, spec };
}

interface World {
  readonly pods?: readonly PodView[];
  /** By namespace. */
  readonly deployments?: Readonly<Record<string, object>>;
  readonly options?: Readonly<Record<string, string>>;
}

function kubeControllers({ pods = [], deployments = {}, options = {} }: World): { found: KubeControllers; asked: string[] } {
  const asked: string[] = [];
  const client = {
    request: async ({ path }: { readonly path: string }) => {
      asked.push(path);
      const namespace = /\/namespaces\/([^/]+)\//.exec(path)?.[1];
      const items = namespace === undefined ? Object.values(deployments) : [deployments[namespace] ?? []].flat();
      return JSON.stringify({ items });
    },
  };
  return { found: new KubeControllers(resolveOptions(CONTROLLER, options, {}, undefined), client, { pods }), asked };
}

const presence = (world: World) => kubeControllers(world).found.presence();
const FURTHER = { "calico-namespaces": "network,calico-apiserver" };

describe("S3: Calico's kube-controllers counts as present", () => {
  const present: readonly (readonly [string, World])[] = [
    ["by its pod in kube-system", { pods: [pod()] }],
    ["by its pod in calico-system", { pods: [pod({ namespace: "calico-system" })] }],
    ["by its pod in a namespace that an option names", { pods: [pod({ namespace: "calico-apiserver" })], options: FURTHER }],
    ["by its Deployment of one replica, which is the default", { deployments: { "kube-system": deployment() } }],
    ["by its Deployment in a namespace that an option names", { deployments: { network: deployment(NAME, 1) }, options: FURTHER }],
    ["when the options say so", { options: { "calico-kube-controllers": "present" } }],
  ];
  it.each(present)("%s", async (_, world) => {
    expect(await presence(world)).toBeDefined();
  });
});

describe("S3: Calico's kube-controllers does not count as present", () => {
  const absent: readonly (readonly [string, World])[] = [
    ["by a tenant's pod with its label and its account's name", { pods: [pod({ namespace: "tenant-a" })] }],
    ["by a tenant's Deployment", { deployments: { "tenant-a": deployment() } }],
    ["by a pod of another account", { pods: [pod({ account: "default" })] }],
    ["by a Deployment of another account", { deployments: { "kube-system": deployment("default") } }],
    ["by a pod with another label", { pods: [pod({ label: "web" })] }],
    ["by a pod that has ended", { pods: [pod({ phase: "Succeeded" })] }],
    ["by a Deployment that wants no pod", { deployments: { "kube-system": deployment(NAME, 0) } }],
    ["when the options say so", { pods: [pod()], options: { "calico-kube-controllers": "absent" } }],
  ];
  it.each(absent)("%s", async (_, world) => {
    expect(await presence(world)).toBeUndefined();
  });

  it("and the Deployments of tenants are not asked for", async () => {
    const { found, asked } = kubeControllers({});
    await found.presence();
    expect(asked.map((path) => path.replace(/\?.*/, ""))).toEqual([
      "/apis/apps/v1/namespaces/kube-system/deployments",
      "/apis/apps/v1/namespaces/calico-system/deployments",
    ]);
  });
});

describe("S3: the presence of Calico's kube-controllers", () => {
  async function seen(world: World) {
    const { found } = kubeControllers(world);
    await found.presence();
    const metrics = controllerMetrics({ kubeControllers: () => found.found });
    const gauge = /^tortie_controller_calico_kube_controllers (.*)$/m.exec(await metrics.text())?.[1];
    const setting = resolveOptions(CONTROLLER, world.options ?? {}, {}, undefined)["calico-kube-controllers"];
    return { health: kubeControllersCheck(setting, () => found.found).look(), gauge };
  }

  it("is a warning that names it, and a metric", async () => {
    const { health, gauge } = await seen({ pods: [pod()] });
    expect(health).toMatchObject({ state: "warning", message: expect.stringContaining("pod kube-system/kc") });
    expect(gauge).toBe("1");
  });

  it("is no warning where the options ask for it", async () => {
    const { health, gauge } = await seen({ options: { "calico-kube-controllers": "present" } });
    expect([health.state, gauge]).toEqual(["ok", "1"]);
  });

  it("is no warning where there is none", async () => {
    const { health, gauge } = await seen({ pods: [pod({ namespace: "tenant-a" })] });
    expect([health.state, gauge]).toEqual(["ok", "0"]);
  });

  it("cannot be asked for in a namespace whose name is none", () => {
    const refused = () => kubeControllers({ options: { "calico-namespaces": "kube-system/../x" } });
    expect(refused).toThrow(expect.objectContaining({ word: "option-invalid" }));
  });
});
