import { describeKubernetesSuite } from "../../golden/suite.ts";

describeKubernetesSuite("main", true);
