// check.mjs checks the pages that are listed in pages.json, which the Go command in this folder writes.
//
//   node check.mjs pages|pages-quick|behaviour|scores|screenshots|pictures pages.json
import { mkdir, readFile, rm } from "node:fs/promises";
import { launch } from "./browser.mjs";
import { checkBehaviour } from "./behaviour.mjs";
import { checkPages } from "./pages.mjs";
import { checkScores } from "./scores.mjs";
import { takePictures, takeScreenshots } from "./screenshots.mjs";

const [what, file] = process.argv.slice(2);
const plan = JSON.parse(await readFile(file, "utf8"));
let faults = [];
switch (what) {
  case "pages":
  case "pages-quick": {
    const browser = await launch();
    faults = await checkPages(browser, plan, { quick: what === "pages-quick" });
    await browser.close();
    break;
  }
  case "behaviour":
    faults = await checkBehaviour(plan);
    break;
  case "scores":
    faults = await checkScores(plan, { runs: 3, categories: ["performance", "accessibility", "best-practices", "seo"] });
    break;
  case "screenshots": {
    const folder = new URL("../screenshots/", import.meta.url);
    await rm(folder, { recursive: true, force: true });
    await mkdir(folder, { recursive: true });
    const browser = await launch();
    await takeScreenshots(browser, plan, folder);
    await browser.close();
    break;
  }
  case "pictures": {
    const browser = await launch();
    faults = await takePictures(browser, plan, new URL("../../docs/images/", import.meta.url), new URL("../../docs/help/pictures/", import.meta.url));
    await browser.close();
    break;
  }
  default:
    faults = [`unknown check ${what}`];
}
for (const fault of faults) console.error(`FAULT ${fault}`);
console.log(faults.length ? `${faults.length} faults` : `${what}: no fault`);
process.exit(faults.length ? 1 : 0);
