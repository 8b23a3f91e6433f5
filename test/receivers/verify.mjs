// Checks deliveries with the libraries that receivers use. Standard input has one
// JSON object a line: {library, secret, headers, body}, body in base64; standard
// output answers each with "good" or why not.
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
