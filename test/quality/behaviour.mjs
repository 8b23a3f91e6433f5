import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { checkApplying } from "./apply.mjs";
import { launch, newPage, visit } from "./browser.mjs";
import { checkApplications } from "./applications.mjs";
import { checkDesigner } from "./designer.mjs";

// checkBehaviour performs actions on the pages, and returns the faults that it finds.
export async function checkBehaviour(plan) {
  const base = new URL(plan.file_page).origin;
  const browser = await launch();
  const faults = [];
  const step = async (name, options, f, host = new URL(base).host) => {
    const { context, page, messages, hosts } = await newPage(browser, options);
    try {
      await f(page, messages);
      assert.deepEqual(messages, []);
      assert.deepEqual([...hosts], [host]);
    } catch (error) {
      faults.push(`${name}: ${error.message}`);
    }
    await context.close();
  };
  const heading = (page) => page.locator("h1").textContent();

  await step("a chosen file is looked up by its digest, and is not sent", {}, async (page) => {
    const sent = [];
    page.on("request", (request) => sent.push(`${request.method()} ${request.postData() ?? ""}`.trim()));
    await page.goto(`${base}/verify`);
    await page.locator(".drop input[type=file]").setInputFiles(plan.file);
    await page.waitForURL(plan.file_page);
    assert.equal(await heading(page), "This certificate is valid");
    assert.deepEqual([...new Set(sent)].sort(), ["GET", "HEAD"]);
  });
  await step("a changed file is compared with the certificate whose reference id it contains", {}, async (page) => {
    await page.goto(`${base}/verify?lang=de`);
    await page.locator(".drop input[type=file]").setInputFiles(plan.changed);
    await page.waitForURL(/\/verify\/file\/[0-9a-f]{64}\?/);
    const at = new URL(page.url());
    assert.equal(at.searchParams.get("reference_id"), plan.reference);
    assert.equal(at.searchParams.get("lang"), "de");
    assert.equal(await heading(page), "Diese Datei ist nicht die ausgestellte");
  });
  await step("a dropped file is compared on the page of a certificate", {}, async (page) => {
    await page.goto(`${base}/verify/${plan.reference}`);
    await drop(page, await readFile(plan.changed));
    await page.waitForURL(/reference_id=/);
    assert.equal(await heading(page), "This file is not the one issued");
    await page.goto(`${base}/verify/${plan.reference}`);
    await drop(page, await readFile(plan.file));
    await page.waitForURL(/reference_id=/);
    assert.match(await page.locator(".match").textContent(), /identical to the verified PDF/);
  });
  await step("the page for a credential says that one of the vault is valid", {}, async (page) => {
    await page.goto(`${base}/verify`);
    await page.locator("#credential").setInputFiles(plan.credential);
    await page.locator("form:has(#credential) button").click();
    await page.locator(".verdict.valid").waitFor();
    assert.equal(await heading(page), "The credential is valid");
    assert.equal(await page.locator(".check.passed").count(), 5);
  });
  await step("a file that is too large causes a message, and no other page", {}, async (page) => {
    // The browser opens the file itself. Content in a message to the browser takes long on a busy machine.
    const folder = await mkdtemp(join(tmpdir(), "certvault-large-"));
    const large = join(folder, "large.pdf");
    await writeFile(large, Buffer.alloc(41 << 20));
    await page.goto(`${base}/verify`);
    await page.locator(".drop input[type=file]").setInputFiles(large);
    await page.locator(".drop [role=status]").filter({ hasText: "too large" }).waitFor();
    assert.equal(page.url(), `${base}/verify`);
    await rm(folder, { recursive: true });
  });
  await step("the reference id can be copied", { permissions: ["clipboard-read", "clipboard-write"] }, async (page) => {
    await page.goto(`${base}/verify/${plan.reference}`);
    await page.getByRole("button", { name: "Copy" }).click();
    await page.getByRole("button", { name: "Copied" }).waitFor();
    assert.equal(await page.evaluate(() => navigator.clipboard.readText()), plan.reference);
  });
  await step("a reference id can be looked up without JavaScript", { javaScriptEnabled: false }, async (page) => {
    await page.goto(`${base}/verify?lang=fr`);
    assert.equal(await page.locator(".drop").isVisible(), false);
    assert.equal(await page.locator(".scan").isVisible(), false);
    assert.match(await page.locator("noscript").textContent(), /JavaScript/);
    await page.locator("#reference_id").fill(plan.reference.toLowerCase().replace("-", " "));
    await page.locator("#reference_id").press("Enter");
    await page.waitForURL(/\/verify\/.*lang=fr/);
    assert.equal(await heading(page), "Ce certificat est valide");
  });
  await step("the language can be changed in the menu without JavaScript", { javaScriptEnabled: false }, async (page) => {
    await page.goto(`${base}/verify?lang=en`);
    assert.equal(await page.getByRole("link", { name: "Deutsch" }).isVisible(), false);
    await page.locator(".language summary").click();
    await page.getByRole("link", { name: "Deutsch" }).click();
    await page.getByRole("heading", { level: 1, name: "Zertifikat prüfen" }).waitFor();
  });
  await step("the menu of languages closes with Escape and with a click outside", {}, async (page) => {
    await page.goto(`${base}/verify?lang=en`);
    const [summary, link] = [page.locator(".language summary"), page.getByRole("link", { name: "Deutsch" })];
    for (const close of [() => page.keyboard.press("Escape"), () => page.locator("h1").click()]) {
      await summary.click();
      await link.waitFor({ state: "visible" });
      await close();
      await link.waitFor({ state: "hidden" });
    }
  });
  await step("a certificate can be printed", {}, async (page) => {
    await page.addInitScript(() => { globalThis.print = () => { document.documentElement.dataset.printed = "yes"; }; });
    await page.goto(plan.pages.find((one) => one.name === "valid").url);
    await page.getByRole("button", { name: "Print" }).click();
    assert.equal(await page.evaluate(() => document.documentElement.dataset.printed), "yes");
  });
  await step("the reference id and the file can be reached by keyboard, and the first link skips the header", {}, async (page) => {
    await page.goto(`${base}/verify`);
    await page.keyboard.press("Tab");
    assert.equal(await page.evaluate(() => document.activeElement.className), "skip");
    await page.keyboard.press("Enter");
    const seen = [];
    for (let i = 0; i < 12; i++) {
      await page.keyboard.press("Tab");
      seen.push(await page.evaluate(() => document.activeElement.id || document.activeElement.type || document.activeElement.textContent));
    }
    assert.deepEqual(seen.slice(0, 2), ["reference_id", "submit"]);
    assert.ok(seen.includes("file"), `the keyboard reaches only ${seen}`);
  });
  await step("the page cannot use a string as markup or code", {}, async (page, messages) => {
    await page.goto(`${base}/verify`);
    const refused = await page.evaluate(() => [
      () => { document.body.innerHTML = "<b>x</b>"; },
      () => { document.createElement("script").text = "x"; },
      () => { setTimeout("x"); },
    ].map((attempt) => {
      try { attempt(); } catch (error) { return error.name; }
      return "accepted";
    }));
    assert.deepEqual(refused, ["TypeError", "TypeError", "TypeError"]);
    // The console of the browser shows an error for each attempt.
    assert.equal(messages.splice(0).length, refused.length);
  });
  await step("the notice after an action is shown in full above the certificate", {}, async (page) => {
    await page.goto(plan.pages.find((one) => one.name === "mail-link").url);
    await page.getByText("Request a correction").click();
    await page.locator("#text").fill("My name has an accent.");
    await page.getByRole("button", { name: "Send request" }).click();
    const notice = page.locator(".note[role=status]");
    assert.match(await notice.textContent(), /was sent/);
    const [message, verdict] = [await notice.boundingBox(), await page.locator(".verdict").boundingBox()];
    assert.ok(message.y + message.height <= verdict.y, `the notice ends at ${message.y + message.height}, and the verdict begins at ${verdict.y}`);
  });
  await step("a colour can be picked or typed", {}, async (page) => {
    const settings = plan.pages.find((one) => one.name === "settings");
    await visit(page, settings, settings.url);
    const [field, picker] = [page.locator("#colour"), page.getByLabel("Choose a color")];
    await picker.fill("#880e4f");
    assert.equal(await field.inputValue(), "#880e4f");
    await field.fill("#33691E");
    assert.equal(await picker.inputValue(), "#33691e");
    await field.fill("green");
    assert.equal(await picker.inputValue(), "#33691e");
  });
  const [upload, staged] = ["upload", "upload-details"].map((name) => plan.pages.find((one) => one.name === name));
  const sample = async () => ({ name: "sample.pdf", mimeType: "application/pdf", buffer: await readFile(plan.sample) });
  // drawn performs an action, and waits until the script has received and shown the stamped page. It returns
  // the response with the picture of that page.
  const drawn = async (page, action) => {
    const scripted = (r) => r.url().includes("/stamped.png") && r.request().resourceType() === "fetch" && r.ok();
    const [response] = await Promise.all([page.waitForResponse(scripted), action()]);
    await page.locator(".frame, .stage canvas").first().waitFor();
    await response.finished();
    await page.waitForTimeout(200);
    return response;
  };
  await step("a file is checked before it is sent, and the summary of problems gets the focus", {}, async (page) => {
    await visit(page, upload, upload.url);
    const sent = [];
    page.on("request", (request) => sent.push(request.method()));
    const folder = await mkdtemp(join(tmpdir(), "certvault-files-"));
    for (const [name, content, text] of [
      ["large.pdf", Buffer.alloc((20 << 20) + 1, "%PDF-1.7 "), /limit is 20 MB/], ["text.pdf", "no PDF", /not a PDF, JPG or PNG/],
      ["class.xlsx", "PK\x03\x04", /is a list/], ["empty.pdf", "", /is empty/],
    ]) {
      await writeFile(join(folder, name), content);
      await page.locator("#file").setInputFiles(join(folder, name));
      await page.locator(".problems").filter({ hasText: text }).waitFor();
      assert.equal(await page.evaluate(() => document.activeElement.className), "problems");
      assert.equal(await page.locator("#file").getAttribute("aria-invalid"), "true");
      assert.match(await page.locator("#file-problem").textContent(), text);
    }
    assert.ok(!sent.includes("POST"), "a file was sent");
    await rm(folder, { recursive: true });
  });
  await step("after an error of the vault, the summary gets the focus and the field is marked", {}, async (page, messages) => {
    await visit(page, upload, upload.url);
    await page.locator("#file").setInputFiles({ name: "broken.pdf", mimeType: "application/pdf", buffer: Buffer.from("%PDF-1.7 broken") });
    await page.locator(".problems").waitFor();
    assert.equal(await page.evaluate(() => document.activeElement.className), "problems");
    assert.equal(await page.locator("#file").getAttribute("aria-invalid"), "true");
    assert.match(messages.splice(0).join(), /status of 422/);
  });
  await step("after an error of a bulk upload, the message gets the focus and the field is marked", {}, async (page, messages) => {
    const start = plan.pages.find((one) => one.name === "bulk-list");
    await visit(page, start, start.url);
    const list = page.locator("input[name=list]");
    await list.setInputFiles({ name: "list.csv", mimeType: "text/csv", buffer: Buffer.from("") });
    await list.evaluate((control) => control.form.requestSubmit(control.form.querySelector("[type=submit]")));
    const problem = page.locator(".says.problem");
    await problem.waitFor();
    assert.equal(await problem.evaluate((message) => message === document.activeElement), true);
    assert.equal(await list.getAttribute("aria-invalid"), "true");
    assert.match(messages.splice(0).join(), /status of 4/);
  });
  await step("a page that shows progress is loaded again, but not after a change by the person", {}, async (page) => {
    const rows = plan.pages.find((one) => one.name === "bulk-rows");
    await page.route(rows.url, async (route) => {
      const response = await route.fetch();
      await route.fulfill({ response, body: (await response.text()).replace("<h1", '<div data-reload="1" hidden></div><h1') });
    });
    let loads = 0;
    page.on("load", () => loads++);
    const again = page.waitForEvent("load", { predicate: () => loads > 1 });
    await visit(page, rows, rows.url);
    await again;
    const field = page.locator("#fixes input[type=text]").first();
    await field.fill("typed");
    await field.blur();
    const before = loads;
    await page.waitForTimeout(2500);
    assert.equal(loads, before, "a page with typed text was loaded again");
    assert.equal(await field.inputValue(), "typed");
  });
  await step("a dropped file is shown on the same screen, and the fields keep what was typed", {}, async (page) => {
    await visit(page, upload, upload.url);
    await page.locator("#applicant_email").fill("ada@example.org");
    await drawn(page, async () => dropOn(page, await sample()));
    assert.match(page.url(), /\/upload\/[0-9a-f-]{36}$/);
    assert.equal(await page.evaluate(() => document.activeElement.id), "step");
    assert.equal(await page.locator("#applicant_email").inputValue(), "ada@example.org");
    assert.equal(await page.locator("#issue").isEnabled(), true);
    await page.locator("#full_name").fill("Nobody Else");
    await page.locator("#certificate_title").focus();
    await page.locator("#name-warning").filter({ hasText: "Nobody Else does not appear in this file" }).waitFor();
    await page.goto(page.url());
    assert.equal(await page.evaluate(() => document.activeElement.id), "step");
  });
  await step("every position has a picture, and the stamp moves by pointer and keyboard", { viewport: { width: 1280, height: 900 } }, async (page) => {
    await drawn(page, () => visit(page, staged, staged.url));
    const size = () => page.locator(".stage canvas").evaluate((canvas) => canvas.width / canvas.height);
    const plain = await size();
    assert.equal((await drawn(page, () => page.locator("#place-strip").check())).headers()["stamp-placement"], "strip");
    assert.ok((await size()) < plain, "the page with a strip is not higher");
    assert.equal(await page.locator(".frame").isVisible(), false);
    assert.equal((await drawn(page, () => page.locator("#place-appended").check())).headers()["stamp-page"], "2");
    await drawn(page, () => page.locator("#place-corner").check());
    const before = await page.locator(".frame").boundingBox();
    const [x, y] = [before.x + 3, before.y + 3];
    await page.mouse.move(x, y);
    await page.mouse.down();
    await page.mouse.move(x - 60, y - 100, { steps: 3 });
    const moved = await page.locator(".frame").boundingBox();
    // The stamp moves by the same distance as the pointer.
    assert.ok(Math.abs(moved.x - before.x + 60) < 2 && Math.abs(moved.y - before.y + 100) < 2, `the stamp jumped from ${before.x}, ${before.y} to ${moved.x}, ${moved.y}`);
    const response = await drawn(page, () => page.mouse.up());
    assert.equal(response.headers()["stamp-placement"], "exact");
    assert.equal(await page.locator("#place-exact").isChecked(), true);
    const left = async () => Number(await page.locator("[name=x]").inputValue());
    const start = await left();
    await page.locator(".frame").press("ArrowLeft");
    assert.ok(Math.abs(start - (await left()) - 0.5) < 0.02, `an arrow key moved the stamp from ${start} to ${await left()}`);
    await page.locator(".frame").press("Shift+ArrowLeft");
    assert.ok(Math.abs(start - (await left()) - 5.5) < 0.02, `an arrow key with shift moved the stamp to ${await left()}`);
    const width = Number(await page.locator("[name=width]").inputValue());
    const handle = await page.locator(".handle").boundingBox();
    await page.mouse.move(handle.x + 8, handle.y + 8);
    await page.mouse.down();
    await page.mouse.move(handle.x + 48, handle.y + 30, { steps: 3 });
    await drawn(page, () => page.mouse.up());
    assert.ok(Number(await page.locator("[name=width]").inputValue()) > width + 2, "the handle did not change the size");
    // The stamp covers the title, which is at the top of the page.
    await page.locator("[name=x]").fill("20");
    await page.locator("[name=width]").fill("60");
    await page.locator("[name=height]").fill("40");
    await drawn(page, () => page.locator("[name=y]").fill("5"));
    await page.locator(".controls .says").filter({ hasText: "would cover content" }).waitFor();
    const red = await page.locator(".stage canvas").evaluate((canvas) => {
      const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      let n = 0;
      for (let i = 0; i < data.length; i += 4) if (data[i] > 150 && data[i + 1] < 60 && data[i + 2] < 60) n++;
      return n;
    });
    assert.ok(red > 50, `${red} pixels are hatched`);
  });
  await step("the stamped page is drawn once, and an extra page has the texts of the form", {}, async (page) => {
    const sent = [];
    page.on("request", (request) => { if (request.url().includes("/stamped.png")) sent.push(request); });
    await drawn(page, () => visit(page, staged, staged.url));
    await page.waitForLoadState("networkidle");
    assert.equal(sent.length, 1, `the page requests ${sent.map((one) => one.url())}`);
    await page.locator("#full_name").fill("Ada Obi");
    await drawn(page, () => page.locator("#place-appended").check());
    await page.locator("#certificate_title").fill("Doctor of Law");
    await drawn(page, () => page.locator("#full_name").focus());
    const last = new URLSearchParams(sent.at(-1).postData());
    assert.deepEqual([last.get("full_name"), last.get("title"), last.get("placement")], ["Ada Obi", "Doctor of Law", "appended"]);
    assert.ok(sent.every((one) => !one.url().includes("?")), "an address has the texts of the form");
    const count = sent.length;
    await drawn(page, () => page.locator("#place-strip").check());
    await page.locator("#full_name").fill("Ada");
    await page.locator("#certificate_title").focus();
    await page.waitForTimeout(600);
    assert.equal(sent.length, count + 1, "a name was drawn again although the strip does not have it");
  });
  await step("the button names the address", {}, async (page) => {
    await visit(page, staged, staged.url);
    await page.locator("#issue").evaluate((button) => { button.dataset.send = "Issue and send to {email}"; });
    await page.locator("#applicant_email").fill("ada@example.org");
    assert.equal(await page.locator("#issue").textContent(), "Issue and send to ada@example.org");
    await page.locator("#applicant_email").fill("ada@");
    assert.equal(await page.locator("#issue").textContent(), "Issue certificate");
  });
  await step("the page after an upload shows the state without a reload", {}, async (page) => {
    const waiting = plan.pages.find((one) => one.name === "upload-done");
    await page.route("**/events", (route) => route.fulfill({
      contentType: "text/event-stream", body: `data: ${JSON.stringify({ status: "approved", title: "It was issued", text: "Done.", done: 1, finished: true })}\n\n`,
    }));
    await page.route("**/page.png", async (route) => route.fulfill({ contentType: "image/svg+xml", body: '<svg xmlns="http://www.w3.org/2000/svg"/>' }));
    let loads = 0;
    page.on("load", () => loads++);
    await visit(page, waiting, waiting.url);
    await page.locator("h1").filter({ hasText: "It was issued" }).waitFor();
    await page.locator("#done img").waitFor({ state: "attached" });
    await page.waitForTimeout(1500);
    assert.equal(loads, 1);
  });
  await step("without JavaScript, the test mail of the set-up keeps the form", { javaScriptEnabled: false }, async (page) => {
    const setup = plan.pages.find((one) => one.name === "setup");
    await visit(page, setup, setup.url);
    await page.locator("#owner_email").fill("owner@example.org");
    await page.locator("#owner_password").fill("correct horse battery");
    await page.locator(".setup-mail summary").click();
    const [result] = await Promise.all([page.waitForEvent("popup"), page.locator("[data-test-mail]").click()]);
    await result.getByText("owner@example.org").waitFor();
    assert.ok(!(await result.content()).includes("correct horse"), "the page with the result has the password");
    assert.equal(await page.locator("#owner_password").inputValue(), "correct horse battery");
  }, new URL(plan.pages.find((one) => one.name === "setup").url).host);
  await step("without JavaScript, a file and its preview take two steps", { javaScriptEnabled: false }, async (page) => {
    await visit(page, upload, upload.url);
    assert.equal(await page.locator("#details-card").isVisible(), false);
    await page.locator("#file").setInputFiles(await sample());
    await page.getByRole("button", { name: "Continue" }).click();
    await page.locator("#full_name").fill("Ada Obi");
    await page.locator("#place-strip").check();
    await page.getByRole("button", { name: "Show preview" }).click();
    await page.locator('.stage img[src*="placement=strip"]').waitFor();
    assert.equal(await page.locator("#full_name").inputValue(), "Ada Obi");
    await page.getByRole("button", { name: "Issue certificate" }).waitFor();
  });
  await step("one checkbox selects all rows of a page, and a label shows their number", { viewport: { width: 1280, height: 500 } }, async (page) => {
    const list = plan.pages.find((one) => one.name === "certificates");
    await visit(page, list, list.url);
    const rows = page.locator("[name=selected]");
    const actions = page.locator(".selection");
    assert.equal(await actions.isVisible(), false);
    await page.getByLabel("Select all on this page").check();
    assert.equal(await page.locator("[name=selected]:checked").count(), await rows.count());
    await rows.first().uncheck();
    assert.equal((await actions.locator("[data-count]").textContent()).trim(), `${(await rows.count()) - 1} selected`);
    assert.equal(await page.getByLabel("Select all on this page").evaluate((checkbox) => checkbox.indeterminate), true);
    // The actions stay visible, and do not hide the element that has the focus.
    for (let i = (await rows.count()) - 1; i >= 0; i--) {
      await rows.nth(i).focus();
      const [row, bar, head, box] = [await rows.nth(i).boundingBox(), await page.locator(".bar").boundingBox(), await page.locator(".rowlist thead th").first().boundingBox(), await actions.boundingBox()];
      assert.ok(box.y >= bar.height && box.y + box.height <= 500, `the actions are at ${box.y}`);
      assert.ok(row.y >= bar.height && row.y >= head.y + head.height - 1 && row.y + row.height <= box.y, `row ${i} is hidden`);
    }
  });
  await step("actions appear with a selection to which they apply, also without JavaScript", { javaScriptEnabled: false }, async (page) => {
    const list = plan.pages.find((one) => one.name === "certificates");
    await visit(page, list, list.url);
    const visible = () => page.locator(".selection button").evaluateAll((buttons) => buttons.filter((b) => b.checkVisibility()).map((b) => b.textContent.trim()));
    assert.deepEqual(await visible(), []);
    await page.locator(".is-revoked [name=selected]").first().check();
    assert.deepEqual(await visible(), ["Download PDFs", "Export CSV", "Clear selection"]);
    await page.locator(".is-approved [name=selected]").first().check();
    assert.deepEqual(await visible(), ["Download PDFs", "Download credentials", "Export CSV", "Renew", "Revoke…", "Clear selection"]);
    await page.getByRole("button", { name: "Clear selection" }).click();
    assert.deepEqual(await visible(), []);
  });
  await step("the list works with the keyboard", {}, async (page) => {
    const list = plan.pages.find((one) => one.name === "certificates");
    await visit(page, list, list.url);
    const focused = () => page.evaluate(() => document.activeElement.id || document.activeElement.textContent);
    const names = await page.locator(".rowlist tbody .c-name a").allTextContents();
    await page.keyboard.press("j");
    assert.equal(await focused(), names[0]);
    await page.keyboard.press("j");
    await page.keyboard.press("k");
    await page.keyboard.press("x");
    assert.equal(await page.locator("[name=selected]").first().isChecked(), true);
    await page.keyboard.press("/");
    assert.equal(await focused(), "q");
    // In a field, the keys are text and not shortcuts.
    await page.keyboard.type("jx?");
    assert.equal(await page.locator("#q").inputValue(), "jx?");
    await page.locator("#q").blur();
    await page.keyboard.press("?");
    assert.equal(await page.locator("#shortcuts").isVisible(), true);
    await page.getByLabel("Use single-key shortcuts").uncheck();
    await page.keyboard.press("Escape");
    await page.keyboard.press("?");
    assert.equal(await page.locator("#shortcuts").isVisible(), false);
    await page.keyboard.press("Control+k");
    await page.keyboard.type("web");
    assert.equal(await page.locator("#palette [aria-selected=true]").textContent(), "Webhooks");
    await page.keyboard.press("ArrowUp");
    await page.keyboard.press("ArrowUp");
    await page.keyboard.press("Enter");
    await page.waitForURL(/\/webhooks$/);
    await page.keyboard.press("Control+k");
    await page.keyboard.type(plan.reference);
    await page.keyboard.press("Enter");
    await page.waitForURL(/\/certificates\/[0-9a-f-]{36}$/);
  });
  await step("a response to a key or a tick in a list takes at most 100 ms", {}, async (page) => {
    const list = plan.pages.find((one) => one.name === "certificates");
    await visit(page, list, list.url);
    const measure = async (act) => {
      await page.evaluate(() => {
        globalThis.slowest = 0;
        const mark = (event) => {
          const begin = event.timeStamp;
          requestAnimationFrame(() => setTimeout(() => { globalThis.slowest = Math.max(globalThis.slowest, performance.now() - begin); }));
        };
        for (const name of ["keydown", "click"]) document.addEventListener(name, mark, { once: true, capture: true });
      });
      await act();
      await page.waitForFunction(() => globalThis.slowest > 0);
      return page.evaluate(() => globalThis.slowest);
    };
    for (const act of [() => page.keyboard.press("j"), () => page.keyboard.press("x"), () => page.getByLabel("Select all on this page").click(), () => page.keyboard.press("Control+k")]) {
      // Other programs on the machine can delay a response, so the fastest of three counts.
      let time = Infinity;
      for (let i = 0; i < 3 && time > 100; i++) {
        if (i > 0) await page.keyboard.press("Escape");
        time = await measure(act);
      }
      assert.ok(time <= 100, `a response took ${time} ms`);
    }
  });
  await step("the chart shows the values of a bar", {}, async (page) => {
    const dashboard = plan.pages.find((one) => one.name === "dashboard");
    await visit(page, dashboard, dashboard.url);
    const readout = page.locator("[data-readout]");
    await page.locator("svg.bars g .room").last().hover({ force: true }); // force, because the bar covers this element
    const shown = await readout.textContent();
    assert.match(shown, /: \d+ approved, \d+ failed$/);
    await page.locator("svg.bars").focus();
    await page.keyboard.press("Home");
    assert.match(await readout.textContent(), /: \d+ approved, \d+ failed$/);
  });
  await checkDesigner(step, plan);
  await checkApplications(step, plan);
  await checkApplying(step, plan);
  await browser.close();
  faults.push(...(await checkCamera(base, plan)));
  console.log("behaviour: files, uploads, camera, copy, notices, colour, selection, palette, chart, designer, applications, keyboard, no JavaScript, Trusted Types");
  return faults.map((fault) => fault.replaceAll("\n", " "));
}

// drop drops a file on the drop area of the page.
async function drop(page, content) {
  const transfer = await page.evaluateHandle((bytes) => {
    const t = new DataTransfer();
    t.items.add(new File([Uint8Array.from(bytes)], "x.pdf", { type: "application/pdf" }));
    return t;
  }, [...content]);
  await page.dispatchEvent(".drop", "dragover", { dataTransfer: transfer });
  assert.equal(await page.locator(".drop.over").count(), 1);
  await page.dispatchEvent(".drop", "drop", { dataTransfer: transfer });
}

// dropOn drops a file on the heading of the page, outside of any drop area.
async function dropOn(page, { name, mimeType, buffer }) {
  const transfer = await page.evaluateHandle(([bytes, name, type]) => {
    const t = new DataTransfer();
    t.items.add(new File([Uint8Array.from(bytes)], name, { type }));
    return t;
  }, [[...buffer], name, mimeType]);
  await page.dispatchEvent("h1", "dragenter", { dataTransfer: transfer });
  assert.equal(await page.locator(".dropveil").isVisible(), true);
  await page.dispatchEvent("h1", "drop", { dataTransfer: transfer });
  assert.equal(await page.locator(".dropveil").isVisible(), false);
}

// checkCamera scans a QR code with a simulated camera, which shows a picture in a file. It scans once with
// the embedded decoder, and once with a simulated decoder of the browser.
async function checkCamera(base, plan) {
  const folder = await mkdtemp(join(tmpdir(), "certvault-camera-"));
  const faults = [];
  const drawer = await launch();
  const { page } = await newPage(drawer, { viewport: { width: 640, height: 480 } });
  await page.goto(`${base}/verify/${plan.reference}/qrcode.svg`);
  const code = await page.screenshot({ type: "jpeg", quality: 90 });
  await drawer.close();
  for (const [name, decoder] of [["with the embedded decoder", true], ["with the decoder of the browser", false]]) {
    const file = join(folder, "camera.mjpeg");
    await writeFile(file, code);
    const browser = await launch(["--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream", `--use-file-for-fake-video-capture=${file}`]);
    const { page, hosts, messages } = await newPage(browser, { permissions: ["camera"] });
    try {
      const loaded = [];
      page.on("request", (request) => loaded.push(new URL(request.url()).pathname));
      if (!decoder) {
        await page.addInitScript(() => {
          globalThis.BarcodeDetector = class {
            static async getSupportedFormats() { return ["qr_code"]; }
            async detect() { return [{ rawValue: "https://elsewhere.example/verify/NWU-0000000000000000?x" }]; }
          };
        });
      }
      await page.goto(`${base}/verify`);
      assert.ok(!loaded.some((path) => path.includes("/qr/")), "the decoder is loaded before it is needed");
      await page.getByRole("button", { name: "Scan QR code" }).click();
      await page.waitForURL(decoder ? `**/verify/${plan.reference}` : "**/verify/NWU-0000000000000000");
      assert.equal(loaded.some((path) => path.includes("/qr/")), decoder);
      assert.deepEqual([...hosts], [new URL(base).host]);
      assert.deepEqual(messages, []);
    } catch (error) {
      faults.push(`camera ${name}: ${error.message}`);
    }
    await browser.close();
  }
  await rm(folder, { recursive: true });
  return faults;
}
