import { describeEtcdSuite } from "../../golden/suite.ts";

describeEtcdSuite("ipam-etcd");
