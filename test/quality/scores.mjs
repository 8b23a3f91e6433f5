import * as chromeLauncher from "chrome-launcher";
import lighthouse from "lighthouse";
import { chromiumPath, flags } from "./browser.mjs";

// The lowest scores of a page, and its largest weight: bytes as sent, and requests.
const least = { performance: 0.99, accessibility: 1, "best-practices": 1, seo: 1 };
const most = { bytes: 15 * 1024, requests: 5 };
// The limits of pages that are not public.
const mostHeavy = { bytes: 60 * 1024, requests: 10 };

export async function judgeScores(plan, { runs, categories }) {
  const faults = [];
  const chrome = await chromeLauncher.launch({ chromePath: chromiumPath, chromeFlags: ["--headless=new", ...flags] });
  for (const page of plan.pages.filter((p) => p.scored)) {
    const results = [];
    for (let i = 0; i < runs; i++) {
      // A page that shows a certificate excludes search engines on purpose.
      const skipAudits = page.indexed ? [] : ["is-crawlable"];
      const extraHeaders = page.session ? { Cookie: `__Host-session=${page.session}` } : undefined;
      const { lhr } = await lighthouse(page.url, { port: chrome.port, onlyCategories: categories, skipAudits, extraHeaders, logLevel: "error", output: "json" });
      results.push(lhr);
    }
    const line = [];
    for (const category of categories) {
      const score = median(results.map((r) => r.categories[category].score ?? 0));
      line.push(`${category} ${score.toFixed(2)}`);
      if (score < least[category]) {
        const lost = results[0].categories[category].auditRefs.filter((a) => a.weight && results[0].audits[a.id].score < 1).map((a) => a.id);
        faults.push(`${page.name}: ${category} ${score} (${lost.join(", ")})`);
      }
    }
    const requests = results[0].audits["network-requests"]?.details?.items ?? [];
    if (requests.length) {
      // The pictures of an institution do not count: its logo, its certificates. A data
      // URL in a style causes no request.
      const ours = requests.filter((r) => !r.url.startsWith("data:") && !/\/logos\/|\/image\.png$/.test(new URL(r.url).pathname));
      const bytes = ours.reduce((sum, r) => sum + r.transferSize, 0);
      line.push(`${(bytes / 1024).toFixed(1)} KB in ${ours.length} requests`);
      const bound = page.heavy ? mostHeavy : most;
      if (bytes > bound.bytes) faults.push(`${page.name}: ${bytes} bytes`);
      if (ours.length > bound.requests) faults.push(`${page.name}: ${ours.length} requests: ${ours.map((r) => new URL(r.url).pathname).join(" ")}`);
    }
    console.log(`${page.name}: ${line.join(", ")}`);
  }
  await chrome.kill();
  return faults;
}

function median(list) {
  return list.toSorted((a, b) => a - b)[Math.floor(list.length / 2)];
}
