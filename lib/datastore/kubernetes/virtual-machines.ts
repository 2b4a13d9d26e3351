/** What the allocator asks of pods and of KubeVirt's objects (I§1.9). Without KubeVirt there is no such object: 404 as well. */

import type { Fields } from "../../json/decode.ts";
import type { NamespacedName } from "../../kubernetes/objects.ts";
import { isSubdomain } from "../../system/subdomain.ts";
import type { Reader, VirtualMachines } from "../datastore.ts";
import type { OwnedObject } from "../resources.ts";
import type { ApiCore } from "./core/api-core.ts";
import { metadataOf } from "./core/metadata.ts";

export function kubernetesVirtualMachines(core: ApiCore): VirtualMachines {
  return {
    pods: objectsAt(core, "/api/v1", "pods"),
    instances: objectsAt(core, "/apis/kubevirt.io/v1", "virtualmachineinstances"),
    machines: objectsAt(core, "/apis/kubevirt.io/v1", "virtualmachines"),
  };
}

function objectsAt(core: ApiCore, root: string, plural: string): Reader<NamespacedName, OwnedObject> {
  return {
    async get({ namespace, name }) {
      if (!isSubdomain(namespace) || !isSubdomain(name)) return undefined;
      return core.read(`${root}/namespaces/${namespace}/${plural}/${name}`, `${plural}(${namespace}/${name})`, decodeOwned);
    },
  };
}

function decodeOwned(object: Fields): OwnedObject {
  const { namespace, name, uid, labels, owners, isDeleting } = metadataOf(object);
  return { namespace, name, uid, labels, owners, isDeleting };
}
