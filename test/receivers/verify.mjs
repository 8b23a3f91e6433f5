// verify.mjs checks the signatures of deliveries with the libraries that receivers use. Each line of
// standard input is a JSON object {library, secret, headers, body}, with the body in base64. For each line
// it prints "good", or "bad: " and the reason.
import { createInterface } from 'node:readline';
import { Webhook as Standard } from 'standardwebhooks';
import { Webhook as Svix } from 'svix';

const libraries = { standardwebhooks: Standard, svix: Svix };

for await (const line of createInterface({ input: process.stdin })) {
  const { library, secret, headers, body } = JSON.parse(line);
  try {
    new libraries[library](secret).verify(Buffer.from(body, 'base64').toString('utf8'), headers);
    console.log('good');
  } catch (error) {
    console.log(`bad: ${error.message}`);
  }
}
