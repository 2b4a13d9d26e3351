// usage: bun replayall.ts out.json [--bin] suite|scenario...
import { writeFileSync } from "node:fs";
import { ReplayCluster } from "/work/main/test/golden/kubernetes-cluster.ts";
import { loadRecording, recordingNames, SUITES } from "/work/main/test/golden/recording.ts";
import { kubernetesVenue } from "/work/main/test/golden/venue.ts";
import { replay } from "/work/main/test/golden/replay.ts";
import { judge } from "/work/main/test/golden/deliberate.ts";
const [out, ...words] = process.argv.slice(2);
await using cluster = await ReplayCluster.start();
const venue = kubernetesVenue(cluster);
const result: any = {};
const t0 = performance.now();
let n = 0;
for (const word of words) for (const suite of SUITES) for (const name of recordingNames(suite)) {
  if (!(word === suite || word === `${suite}/${name}`)) continue;
  const rec = loadRecording(suite, name);
  if (!venue.plays(rec)) continue;
  n++;
  const t = performance.now();
  try {
    const played = await replay(rec, venue.kind);
    const d = played.differencesFrom(rec);
    result[`${suite}/${name}`] = { ms: Math.round(performance.now() - t), differences: judge(d, {}, venue.general).unexpected, all: d.length };
  } catch (e) { result[`${suite}/${name}`] = { error: String(e) }; }
}
writeFileSync(out!, JSON.stringify(result, null, 1));
console.log(n, "scenarios", Math.round(performance.now() - t0), "ms");
