import * as chromeLauncher from "chrome-launcher";
import lighthouse from "lighthouse";
import { chromiumPath, flags } from "./browser.mjs";

// The minimum scores of a page, and its maximum weight: the bytes that are transferred, and the requests.
const minScores = { performance: 0.99, accessibility: 1, "best-practices": 1, seo: 1 };
const maxWeight = { bytes: 15 * 1024, requests: 5 };
// The maximum weight of a heavy page (see page in fixture.go).
const maxHeavyWeight = { bytes: 60 * 1024, requests: 10 };

export async function checkScores(plan, { runs, categories }) {
  const faults = [];
  const chrome = await chromeLauncher.launch({ chromePath: chromiumPath, chromeFlags: ["--headless=new", ...flags] });
  for (const page of plan.pages.filter((p) => p.scored)) {
    const results = [];
    for (let i = 0; i < runs; i++) {
      // The pages that are not indexed exclude search engines on purpose.
      const skipAudits = page.indexed ? [] : ["is-crawlable"];
      const extraHeaders = page.session ? { Cookie: `__Host-session=${page.session}` } : undefined;
      const { lhr } = await lighthouse(page.url, { port: chrome.port, onlyCategories: categories, skipAudits, extraHeaders, logLevel: "error", output: "json" });
      results.push(lhr);
    }
    const line = [];
    for (const category of categories) {
      const score = median(results.map((r) => r.categories[category].score ?? 0));
      line.push(`${category} ${score.toFixed(2)}`);
      if (score < minScores[category]) {
        const failed = results[0].categories[category].auditRefs.filter((a) => a.weight && results[0].audits[a.id].score < 1).map((a) => a.id);
        faults.push(`${page.name}: ${category} ${score} (${failed.join(", ")})`);
      }
    }
    const requests = results[0].audits["network-requests"]?.details?.items ?? [];
    if (requests.length) {
      // The logos of institutions and the pictures of certificates do not count. A data URL causes no
      // request.
      const counted = requests.filter((r) => !r.url.startsWith("data:") && !/\/logos\/|\/image\.png$/.test(new URL(r.url).pathname));
      const bytes = counted.reduce((sum, r) => sum + r.transferSize, 0);
      line.push(`${(bytes / 1024).toFixed(1)} KB in ${counted.length} requests`);
      const limit = page.heavy ? maxHeavyWeight : maxWeight;
      if (bytes > limit.bytes) faults.push(`${page.name}: ${bytes} bytes`);
      if (counted.length > limit.requests) faults.push(`${page.name}: ${counted.length} requests: ${counted.map((r) => new URL(r.url).pathname).join(" ")}`);
    }
    console.log(`${page.name}: ${line.join(", ")}`);
  }
  await chrome.kill();
  return faults;
}

function median(list) {
  return list.toSorted((a, b) => a - b)[Math.floor(list.length / 2)];
}
