// Measures how long a PDF library needs to put a picture of a QR code on page one of a file:
//
//   node peers.mjs LIBRARY FILE PICTURE COUNT [P12]
//
// @libpdf/core also signs the file with the key in P12, whose password is "password", as an incremental
// update. pdf-lib writes the whole file again and cannot sign. The output is the median time in milliseconds
// and the size of the result.
import { readFileSync } from "node:fs";
import { performance } from "node:perf_hooks";

const [library, file, picture, count, p12] = process.argv.slice(2);
const source = readFileSync(file);
const code = readFileSync(picture);

const libraries = {
	async "pdf-lib"() {
		const { PDFDocument } = await import("pdf-lib");
		return async () => {
			const pdf = await PDFDocument.load(source);
			const image = await pdf.embedPng(code);
			pdf.getPage(0).drawImage(image, { x: 20, y: 20, width: 70, height: 70 });
			return pdf.save();
		};
	},
	async "@libpdf/core"() {
		const { PDF, P12Signer } = await import("@libpdf/core");
		const signer = await P12Signer.create(readFileSync(p12), "password");
		return async () => {
			const pdf = await PDF.load(source);
			const image = pdf.embedPng(code);
			pdf.getPage(0).drawImage(image, { x: 20, y: 20, width: 70, height: 70 });
			const signed = await pdf.sign({ signer, reason: "Verification" });
			return signed.bytes;
		};
	},
};

const seal = await libraries[library]();
const times = [];
let size = 0;
for (let i = 0; i < Number(count) * 1.5; i++) {
	const began = performance.now();
	size = (await seal()).length;
	times.push(performance.now() - began);
}
// The compiler of V8 optimizes the code during the first third.
const measured = times.slice(-Number(count)).sort((a, b) => a - b);
console.log(measured[Math.floor(measured.length / 2)].toFixed(3), size);
