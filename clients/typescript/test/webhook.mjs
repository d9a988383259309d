// Verifies a webhook with the public library of Standard Webhooks, for a test of the service.
// Standard input is JSON: secret, body, headers. It prints the type of the webhook.
import { readFileSync } from 'node:fs';
import { Webhook } from 'standardwebhooks';

const { secret, body, headers } = JSON.parse(readFileSync(0, 'utf8'));
console.log(new Webhook(secret).verify(body, headers).type);
