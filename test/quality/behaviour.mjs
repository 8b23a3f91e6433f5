import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { launch, newPage, visit } from "./browser.mjs";

// checkBehaviour performs actions on the pages, and returns the faults that it finds.
export async function checkBehaviour(plan) {
  const base = new URL(plan.file_page).origin;
  const browser = await launch();
  const faults = [];
  const step = async (name, options, f) => {
    const { context, page, messages, hosts } = await newPage(browser, options);
    try {
      await f(page, messages);
      assert.deepEqual(messages, []);
      assert.deepEqual([...hosts], [new URL(base).host]);
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
    await page.locator("input[type=file]").setInputFiles(plan.file);
    await page.waitForURL(plan.file_page);
    assert.equal(await heading(page), "This certificate is valid");
    assert.deepEqual([...new Set(sent)], ["GET"]);
  });
  await step("a changed file is compared with the certificate whose reference id it contains", {}, async (page) => {
    await page.goto(`${base}/verify?lang=de`);
    await page.locator("input[type=file]").setInputFiles(plan.changed);
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
    assert.match(await page.locator(".match").textContent(), /byte for byte/);
  });
  await step("a file that is too large causes a message, and no other page", {}, async (page) => {
    await page.goto(`${base}/verify`);
    await page.locator("input[type=file]").setInputFiles({ name: "large.pdf", mimeType: "application/pdf", buffer: Buffer.alloc(41 << 20) });
    await page.locator(".drop [role=status]").filter({ hasText: "too large" }).waitFor();
    assert.equal(page.url(), `${base}/verify`);
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
  await step("every control can be reached by keyboard, and the first link skips the header", {}, async (page) => {
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
    const [field, picker] = [page.locator("#colour"), page.getByLabel("Pick your colour")];
    await picker.fill("#880e4f");
    assert.equal(await field.inputValue(), "#880e4f");
    await field.fill("#33691E");
    assert.equal(await picker.inputValue(), "#33691e");
    await field.fill("green");
    assert.equal(await picker.inputValue(), "#33691e");
  });
  await step("one checkbox selects all rows of a page, and a label shows their number", { viewport: { width: 1280, height: 500 } }, async (page) => {
    const list = plan.pages.find((one) => one.name === "certificates");
    await visit(page, list, list.url);
    const rows = page.locator("[name=selected]");
    await page.locator("#which-all").check();
    await page.getByLabel("Select all on this page").check();
    assert.equal(await page.locator("[name=selected]:checked").count(), await rows.count());
    assert.equal(await page.locator("#which-selected").isChecked(), true);
    await rows.first().uncheck();
    assert.equal((await page.locator("label[for=which-selected]").textContent()).trim(), `Selected (${(await rows.count()) - 1})`);
    assert.equal(await page.getByLabel("Select all on this page").evaluate((checkbox) => checkbox.indeterminate), true);
    // The bar of actions stays visible, and does not hide the element that has the focus.
    await rows.last().focus();
    const [actions, bar] = [await page.locator(".bulk-actions").boundingBox(), await page.locator(".bar").boundingBox()];
    assert.ok(actions.y >= bar.height && actions.y + actions.height < 500, `the bar of actions is at ${actions.y}`);
    for (let i = (await rows.count()) - 1; i >= 0; i--) {
      await rows.nth(i).focus();
      assert.ok((await rows.nth(i).boundingBox()).y >= actions.y + actions.height, `row ${i} is hidden`);
    }
  });
  await browser.close();
  faults.push(...(await checkCamera(base, plan)));
  console.log("behaviour: files, camera, copy, notices, colour, selection, keyboard, no JavaScript, Trusted Types");
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

// checkCamera scans a QR code with a simulated camera, which shows the content of a file.
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
