import { describeKubernetesSuite } from "../../golden/suite.ts";

describeKubernetesSuite("ipam-kdd");
