import { AxeBuilder } from "@axe-core/playwright";
import { HtmlValidate, StaticConfigLoader } from "html-validate";
import { spawnSync } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import vnu from "vnu-jar";
import { inLanguage, newPage, visit } from "./browser.mjs";

const rules = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"];

const variants = [];
for (const lang of ["en", "ar"]) {
  for (const colorScheme of ["light", "dark"]) {
    for (const width of [1280, 320]) variants.push({ lang, colorScheme, width });
  }
}

// Two variants that differ in every property.
const opposite = [variants[0], variants.at(-1)];

// The number of variants that are checked at the same time.
const lanes = availableParallelism();

// checkPages returns the faults of the pages. axe checks each variant of a page; html-validate and vnu
// check the markup in each language. If quick is true, only the opposite variants are checked: both of
// them for a page without a session, and one of them, in turn, for a page with a session.
export async function checkPages(browser, plan, { quick }) {
  const faults = [];
  const markup = new Map();
  // The variants with the most pages are first, so that all lanes finish at about the same time.
  const waiting = [...opposite, ...variants.filter((variant) => !opposite.includes(variant))];
  const lane = async () => {
    for (let variant = waiting.shift(); variant; variant = waiting.shift()) await checkVariant(variant);
  };
  const checkVariant = async (variant) => {
    const { lang, colorScheme, width } = variant;
    const { context, page, messages, hosts } = await newPage(browser, { colorScheme, viewport: { width, height: 800 } });
    for (const [i, one] of plan.pages.entries()) {
      if (quick && !(one.session ? opposite[i % 2] === variant : opposite.includes(variant))) continue;
      const name = `${one.name} (${lang}, ${colorScheme}, ${width})`;
      const url = inLanguage(one.url, lang);
      const response = await visit(page, one, url);
      if (response.status() !== one.status) faults.push(`${name}: status is ${response.status()}, want ${one.status}`);
      const location = response.headers().location;
      if (location) {
        // The other checks would examine the target of the redirect.
        faults.push(`${name}: redirected to ${location}`);
        messages.length = 0;
        hosts.clear();
        continue;
      }
      if (!markup.has(`${one.name}-${lang}`)) markup.set(`${one.name}-${lang}`, await response.text());
      for (const details of await page.locator("details").all()) await details.evaluate((d) => { d.open = true; });
      // axe waits forever for its script in a sandboxed frame, because no script runs there.
      await page.evaluate(() => document.querySelectorAll("iframe[sandbox]").forEach((frame) => frame.remove()));
      // The legacy mode is enough for a page without frames. The default mode opens a second page for each
      // result.
      const axe = await new AxeBuilder({ page }).withTags(rules).setLegacyMode().analyze();
      for (const v of axe.violations) faults.push(`${name}: axe ${v.id}: ${v.nodes.map((n) => n.target.join(" ")).join(", ")}`);
      const wider = await overflow(page);
      if (wider > 0) faults.push(`${name}: ${wider} pixels wider than the window`);
      for (const host of hosts) if (host !== new URL(one.url).host) faults.push(`${name}: requests ${host}`);
      hosts.clear();
      for (const message of messages.splice(0)) {
        // The status 422 is the expected status of some pages.
        if (!message.includes(`status of ${one.status} `)) faults.push(`${name}: ${message}`);
      }
    }
    await context.close();
  };
  await Promise.all(Array.from({ length: lanes }, lane));
  faults.push(...(await checkFrames(browser, plan)));
  faults.push(...(await validate(markup)));
  console.log(`${plan.pages.length} pages and states, ${quick ? "two variants each, one for signed-in people" : `${variants.length} variants each`}`);
  return faults;
}

// overflow returns the number of pixels by which a page is wider than the window.
const overflow = (page) => page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);

// checkFrames checks that a public page, a page of an account and a page of the panel are not wider than the
// window of a phone. It uses the languages that are not in variants, whose words may be longer.
async function checkFrames(browser, plan) {
  const faults = [];
  const { context, page } = await newPage(browser, { viewport: { width: 320, height: 800 } });
  for (const one of plan.pages.filter(({ name }) => ["lookup", "wallet", "certificates"].includes(name))) {
    for (const lang of ["es", "fr", "de", "pt", "hi", "zh"]) {
      await visit(page, one, inLanguage(one.url, lang));
      const wider = await overflow(page);
      if (wider > 0) faults.push(`${one.name} (${lang}, 320): ${wider} pixels wider than the window`);
    }
  }
  await context.close();
  return faults;
}

async function validate(markup) {
  const faults = [];
  const html = new HtmlValidate(new StaticConfigLoader({
    extends: ["html-validate:standard"],
    rules: {
      // The style of the pages differs from these rules.
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
    // vnu guesses the language of a page. The guess may be wrong if a page contains mostly names and digits.
    if (m.type === "info" && /This document appears to be written in/.test(m.message)) continue;
    faults.push(`${m.url?.split("/").pop()}: vnu, line ${m.lastLine}: ${m.message}`);
  }
  await rm(folder, { recursive: true });
  return faults;
}
