import { describeSuite } from "./suite.ts";

describeSuite("ipam-kdd");
describeSuite("ipam-etcd");
