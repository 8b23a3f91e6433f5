import { AxeBuilder } from "@axe-core/playwright";
import { HtmlValidate, StaticConfigLoader } from "html-validate";
import { spawnSync } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import vnu from "vnu-jar";
import { inLanguage, newPage, visit } from "./browser.mjs";

const rules = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"];

const looks = [];
for (const lang of ["en", "ar"]) {
  for (const colorScheme of ["light", "dark"]) {
    for (const width of [1280, 320]) looks.push({ lang, colorScheme, width });
  }
}

// Two looks that differ in every property.
const opposite = [looks[0], looks.at(-1)];

// The number of looks that run at the same time.
const lanes = availableParallelism();

// judgePages returns the faults of the pages: those that axe finds in every look, and
// those that html-validate and vnu find in both writing directions. If hurry is set, it
// checks the pages of signed-in people only in two opposite looks.
export async function judgePages(browser, plan, { hurry }) {
  const faults = [];
  const markup = new Map();
  // The looks with the most pages come first, so that all lanes finish at about the same time.
  const waiting = [...opposite, ...looks.filter((look) => !opposite.includes(look))];
  const lane = async () => {
    for (let look = waiting.shift(); look; look = waiting.shift()) await judgeLook(look);
  };
  const judgeLook = async (look) => {
    const { lang, colorScheme, width } = look;
    const { context, page, complaints, hosts } = await newPage(browser, { colorScheme, viewport: { width, height: 800 } });
    for (const one of plan.pages) {
      if (hurry && one.session && !opposite.includes(look)) continue;
      const name = `${one.name} (${lang}, ${colorScheme}, ${width})`;
      const url = inLanguage(one.url, lang);
      const answer = await visit(page, one, url);
      if (answer.status() !== one.status) faults.push(`${name}: answered ${answer.status()}, not ${one.status}`);
      if (!markup.has(`${one.name}-${lang}`)) markup.set(`${one.name}-${lang}`, await answer.text());
      for (const details of await page.locator("details").all()) await details.evaluate((d) => { d.open = true; });
      const axe = await new AxeBuilder({ page }).withTags(rules).analyze();
      for (const v of axe.violations) faults.push(`${name}: axe ${v.id}: ${v.nodes.map((n) => n.target.join(" ")).join(", ")}`);
      const overflow = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      if (overflow > 0) faults.push(`${name}: ${overflow} pixels wider than the window`);
      for (const host of hosts) if (host !== new URL(one.url).host) faults.push(`${name}: asks ${host}`);
      hosts.clear();
      for (const complaint of complaints.splice(0)) {
        // A page with the status 422 is one of the states.
        if (!complaint.includes(`status of ${one.status} `)) faults.push(`${name}: ${complaint}`);
      }
    }
    await context.close();
  };
  await Promise.all(Array.from({ length: lanes }, lane));
  faults.push(...(await validate(markup)));
  console.log(`${plan.pages.length} pages and states, ${looks.length} looks each${hurry ? ", two for signed-in people" : ""}`);
  return faults;
}

async function validate(markup) {
  const faults = [];
  const html = new HtmlValidate(new StaticConfigLoader({
    extends: ["html-validate:standard"],
    rules: {
      // These rules are matters of style that we decide differently.
      "void-style": "off",
      "long-title": "off",
      "doctype-style": "off",
      "no-trailing-whitespace": "off",
      "no-inline-style": "error",
    },
  }));
  for (const [name, text] of markup) {
    const report = await html.validateString(text, name);
    for (const m of report.results.flatMap((r) => r.messages)) faults.push(`${name}: html-validate ${m.ruleId}, line ${m.line}: ${m.message}`);
  }
  if (spawnSync("java", ["-version"]).error) {
    console.log("Java is not installed: vnu does not check the markup.");
    return faults;
  }
  const folder = await mkdtemp(join(tmpdir(), "certvault-markup-"));
  for (const [name, text] of markup) await writeFile(join(folder, `${name}.html`), text);
  const run = spawnSync("java", ["-jar", vnu, "--format", "json", "--skip-non-html", folder], { maxBuffer: 1 << 26 });
  for (const m of JSON.parse(run.stderr.toString() || '{"messages": []}').messages) {
    // vnu guesses the language of a text. Its guess is wrong if a page contains
    // mostly names and digits.
    if (m.type === "info" && /This document appears to be written in/.test(m.message)) continue;
    faults.push(`${m.url?.split("/").pop()}: vnu, line ${m.lastLine}: ${m.message}`);
  }
  await rm(folder, { recursive: true });
  return faults;
}
