import assert from "node:assert/strict";
import { visit } from "./browser.mjs";

// checkDesigner performs actions in the designer of templates, on the page "designer" of the plan. It
// changes the template of that page.
export async function checkDesigner(step, plan) {
  const one = plan.pages.find((page) => page.name === "designer");
  const open = async (page) => {
    await visit(page, one, one.url);
    await page.locator('.f[data-id="name"] .ink[d^="M"]').waitFor({ state: "attached" });
  };
  const field = (page, id) => page.locator(`.f[data-id="${id}"]`);
  const place = async (page, id) => (await field(page, id).getAttribute("transform")).match(/translate\(([-\d.]+) ([-\d.]+)\)/).slice(1).map(Number);
  const near = (got, want) => got.forEach((v, i) => assert.ok(Math.abs(v - want[i]) < 0.6, `${got} is not near ${want}`));
  const saved = (page) => page.locator("#saved").filter({ hasText: "All changes saved" }).waitFor();
  const drag = async (page, id, dx, dy) => {
    const box = await field(page, id).boundingBox();
    const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
    await page.mouse.move(x, y);
    await page.mouse.down();
    await page.keyboard.down("Control"); // without snapping
    await page.mouse.move(x + dx / 2, y + dy / 2);
    await page.mouse.move(x + dx, y + dy);
    await page.mouse.up();
    await page.keyboard.up("Control");
  };
  const zoom = (page) => page.evaluate(() => document.getElementById("paper").getBoundingClientRect().width / document.getElementById("paper").viewBox.baseVal.width);

  await step("a field moves by the distance of the pointer, and undo restores it", { viewport: { width: 1280, height: 800 } }, async (page) => {
    await open(page);
    const [x, y] = await place(page, "name");
    const scale = await zoom(page);
    await drag(page, "name", 37, -21);
    near(await place(page, "name"), [x + 37 / scale, y - 21 / scale]);
    assert.match(await page.locator("#says").filter({ hasText: "mm from the left" }).textContent(), /mm from the top/);
    await page.keyboard.press("Control+z");
    near(await place(page, "name"), [x, y]);
    await page.keyboard.press("Control+y");
    near(await place(page, "name"), [x + 37 / scale, y - 21 / scale]);
    await page.keyboard.press("Control+z");
    await saved(page);
  });
  await step("fields can be moved, resized, copied and removed by keyboard, and the changes are saved", {}, async (page) => {
    await open(page);
    const [x, y] = await place(page, "date");
    await field(page, "date").focus();
    await page.keyboard.press("ArrowRight");
    await page.keyboard.press("Shift+ArrowUp");
    assert.deepEqual(await place(page, "date"), [x + 1, Math.round((y - 10) * 100) / 100]);
    const width = () => field(page, "date").locator(".hit").getAttribute("width").then(Number);
    const before = await width();
    await page.keyboard.press("Alt+ArrowRight");
    assert.equal(await width(), before + 1);
    const count = await page.locator(".f").count();
    await page.keyboard.press("Control+d");
    assert.equal(await page.locator(".f").count(), count + 1);
    await page.keyboard.press("Delete");
    assert.equal(await page.locator(".f").count(), count);
    await saved(page);
    await page.reload();
    near(await place(page, "date"), [x + 1, y - 10]);
    await page.keyboard.press("Tab");
    await page.locator('[data-id="date"].choose').click();
    await page.getByRole("spinbutton", { name: "Left" }).fill("50");
    await page.keyboard.press("Tab");
    near(await place(page, "date"), [50 * 72 / 25.4, y - 10]);
    await saved(page);
  });
  await step("new fields of a kind are not placed over each other", {}, async (page) => {
    await open(page);
    const add = async () => {
      await page.locator('[data-add="text"]').click();
      const box = page.locator(".f.on");
      return place(page, await box.getAttribute("data-id"));
    };
    const [first, second] = [await add(), await add()];
    assert.notDeepEqual(first, second);
    for (let i = 0; i < 2; i++) await page.keyboard.press("Control+z");
    await saved(page);
  });
  await step("several fields can be selected and aligned", {}, async (page) => {
    await open(page);
    await field(page, "title").click();
    await field(page, "date").click({ modifiers: ["Shift"] });
    await page.getByRole("heading", { name: "2 fields selected" }).waitFor();
    await page.getByRole("button", { name: "Align left edges" }).click();
    const [[a], [b]] = [await place(page, "title"), await place(page, "date")];
    assert.equal(a, b);
    await page.keyboard.press("Control+z");
    await saved(page);
  });
  await step("a sample that a font cannot write shows the problem at its field", {}, async (page) => {
    await open(page);
    await page.locator('[data-sample="missing"]').click();
    await page.locator("#first-problem").filter({ hasText: "U+13000" }).click();
    assert.equal(await field(page, "name").getAttribute("class").then((c) => c.includes("bad")), true);
    assert.match(await page.locator("#fits").textContent(), /U\+13000/);
  });
  await step("the real PDF is shown, without the fields of the designer", {}, async (page) => {
    await open(page);
    await page.getByRole("button", { name: "Real PDF" }).click();
    await page.locator("#real").waitFor({ state: "visible" });
    assert.equal(await page.locator("#paper").evaluate((e) => getComputedStyle(e).visibility), "hidden");
    assert.ok(await page.locator("#real").evaluate((e) => e.width) > 1000);
  });
  await step("a row of an own list is shown, first the one with the longest name", {}, async (page, messages) => {
    await open(page);
    const shaped = (name) => page.waitForResponse(async (r) => r.url().endsWith("/shape") && (await r.json()).shapes.name?.text === name);
    await page.getByRole("button", { name: "Use your own list" }).click();
    await page.getByRole("button", { name: "Show list" }).click();
    await page.locator("#list-problem").filter({ hasText: "The list is empty." }).waitFor();
    await page.getByLabel("Or paste the rows with their header").fill("Name\tMail\nAda Obi\tada@example.org\nWilhelmina Montgomery\tw@example.org\n");
    const longest = shaped("Wilhelmina Montgomery");
    await page.getByRole("button", { name: "Show list" }).click();
    await longest;
    const rows = page.getByLabel("Row of your list");
    assert.equal(await rows.locator("option:checked").textContent(), "Wilhelmina Montgomery (longest name)");
    assert.equal(await page.evaluate(() => document.activeElement.id), "rows");
    const other = shaped("Ada Obi");
    await rows.selectOption("Ada Obi");
    await other;
    await page.locator('[data-sample="typical"]').click();
    assert.equal(await rows.inputValue(), "");
    messages.splice(0, messages.length, ...messages.filter((message) => !message.includes("status of 422")));
  });
  await step("another design keeps the fields, and notes disappear", {}, async (page) => {
    await open(page);
    const before = await page.locator(".f").count();
    await field(page, "name").focus();
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Escape");
    await page.getByRole("link", { name: "Replace design" }).click(); // the designer saves the change first
    await page.waitForURL(/replace$/);
    await page.getByRole("radio", { name: /Token/ }).check();
    await page.getByRole("button", { name: "Replace design" }).last().click();
    await page.locator('.f[data-id="name"] .ink[d^="M"]').waitFor({ state: "attached" });
    assert.equal(await page.locator(".f").count(), before);
    await page.locator("[data-moved]").filter({ hasText: "QR code" }).waitFor();
    await page.getByText("The design was replaced.").waitFor();
    await field(page, "name").focus();
    await page.keyboard.press("ArrowDown");
    await page.getByText("The design was replaced.").waitFor({ state: "detached" });
    await page.locator("[data-moved]").getByRole("button", { name: "Close" }).click();
    assert.equal(await page.locator("[data-moved]").count(), 0);
    await saved(page);
  });
  await step("the second of two people who change a template is told to reload it", {}, async (page, messages) => {
    await open(page);
    const other = await page.context().newPage();
    await open(other);
    await field(other, "date").focus();
    await other.keyboard.press("ArrowDown");
    await saved(other);
    await other.close();
    await field(page, "name").focus();
    await page.keyboard.press("ArrowDown");
    await page.locator("#conflict").waitFor({ state: "visible" });
    assert.equal(await page.evaluate(() => document.activeElement.id), "reload");
    await page.keyboard.press("Enter");
    await page.locator("#conflict").waitFor({ state: "hidden" });
    await page.locator('.f[data-id="name"]').waitFor({ state: "attached" });
    messages.splice(0, messages.length, ...messages.filter((message) => !message.includes("status of 409")));
  });
  await step("the designer works without JavaScript", { javaScriptEnabled: false }, async (page) => {
    await visit(page, one, one.url);
    await page.getByRole("link", { name: "Date", exact: true }).click();
    await page.waitForURL(/[?]field=date/);
    await page.getByLabel("Size, pt", { exact: true }).fill("15");
    await page.getByRole("button", { name: "Save changes" }).first().click();
    await page.getByText("The changes were saved.").waitFor();
    assert.equal(await page.getByLabel("Size, pt", { exact: true }).inputValue(), "15");
  });
}
