import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createClient, StepboardError } from '../dist/index.js';
import { FakeClock, FakeService, refuse, respond, settle } from './fakes.mjs';

const boards = () => respond(200, { boards: [] });

function start(service, token = () => 'A') {
  const clock = new FakeClock();
  return {
    clock,
    client: createClient({ baseUrl: 'https://x.example', token, fetch: service.fetch, clock }),
  };
}

test('A call fills in path, query, body and token', async () => {
  const service = new FakeService(() => respond(204));
  const { client } = start(service);
  assert.equal(
    await client.call('DELETE', '/v1/friends/{id}', {
      path: { id: 'auth0|1/2' },
      query: { user_id: 'a b' },
    }),
    null,
  );
  await client.call('PUT', '/v1/me', { body: { nickname: 'Ann' } });
  const [first, second] = service.requests;
  assert.equal(first.url, 'https://x.example/v1/friends/auth0%7C1%2F2?user_id=a%20b');
  assert.equal(first.headers.Authorization, 'Bearer A');
  assert.equal(first.headers['Content-Type'], undefined);
  assert.deepEqual(second.body, { nickname: 'Ann' });
  assert.equal(second.headers['Content-Type'], 'application/json');
});

test('Parameters that are null or undefined are left out', async () => {
  const service = new FakeService(boards);
  const { client } = start(service);
  const query = { cursor: null, date: undefined, limit: 0 };
  await client.call('GET', '/v1/boards/{board}/friends', { path: { board: 'steps' }, query });
  assert.equal(service.requests[0].url, 'https://x.example/v1/boards/steps/friends?limit=0');
});

test('An address may have a path, and end with a slash', async () => {
  const service = new FakeService(boards);
  for (const baseUrl of ['', 'https://x.example/', 'https://x.example/steps/', '/steps']) {
    const client = createClient({ baseUrl, token: () => 'A', fetch: service.fetch });
    await client.call('GET', '/v1/boards');
  }
  assert.deepEqual(
    service.requests.map(({ url }) => url),
    ['', 'https://x.example', 'https://x.example/steps', '/steps'].map((at) => `${at}/v1/boards`),
  );
});

test('Calls share one token, and ask once more after a 401', async () => {
  const asked = [];
  const token = async (refused) => {
    asked.push(refused);
    return refused ? 'B' : 'A';
  };
  const byToken = ({ headers }) =>
    headers.Authorization === 'Bearer B' ? boards() : refuse(401, 'unauthenticated');
  const service = new FakeService(byToken);
  const { client } = start(service, token);
  await Promise.all([client.call('GET', '/v1/boards'), client.call('GET', '/v1/boards')]);
  await client.call('GET', '/v1/boards');
  assert.deepEqual(asked, [undefined, 'A']);
  assert.equal(service.requests.length, 5);
});

test('A second 401 is an error, and the same token is not sent again', async () => {
  const service = new FakeService(() => refuse(401, 'unauthenticated'));
  let count = 0;
  const other = start(service, () => `token ${(count += 1)}`);
  await assert.rejects(other.client.call('GET', '/v1/boards'), {
    status: 401,
    code: 'unauthenticated',
  });
  assert.equal(service.requests.length, 2);
  const same = start(service);
  await assert.rejects(same.client.call('GET', '/v1/boards'), { status: 401 });
  assert.equal(service.requests.length, 3);
});

test('A token that could not be fetched is asked for again', async () => {
  const service = new FakeService(boards);
  let fails = true;
  const { client } = start(service, async () => {
    if (fails) throw new Error('offline');
    return 'A';
  });
  await assert.rejects(client.call('GET', '/v1/boards'), /offline/);
  fails = false;
  await client.call('GET', '/v1/boards');
  assert.equal(service.requests.length, 1);
});

test('Errors say what happened, and whether to try again', async () => {
  const cases = [
    [
      () => refuse(503, 'unavailable', { headers: { 'Retry-After': '7' } }),
      { status: 503, code: 'unavailable', wait: 7000, permanent: false },
    ],
    [
      () => refuse(429, 'rate_limited', { headers: { 'Retry-After': '2' } }),
      { status: 429, wait: 2000, permanent: false },
    ],
    [() => refuse(408, 'request_timeout'), { status: 408, permanent: false }],
    [
      () => refuse(422, 'validation_failed', { locations: ['body.nickname'] }),
      { status: 422, permanent: true, locations: ['body.nickname'] },
    ],
    [() => new Response('<html>', { status: 502 }), { status: 502, code: '', permanent: false }],
    [() => new Response('<html>'), { status: 0, permanent: false }],
    [() => Promise.reject(new TypeError('failed to fetch')), { status: 0, permanent: false }],
  ];
  for (const [answer, want] of cases) {
    const { client } = start(new FakeService(answer));
    const error = await client.call('GET', '/v1/boards').catch((cause) => cause);
    assert.ok(error instanceof StepboardError);
    for (const [name, value] of Object.entries(want))
      assert.deepEqual(error[name], value, `${error.status} ${name}`);
  }
});

test('A page of another origin is told that the service may not permit it', async (t) => {
  t.after(() => delete globalThis.location);
  const permission = /https:\/\/x.example was not reached, or its setting http.cors_origins lacks/;
  const failed = new TypeError('Failed to fetch');
  for (const [origin, cause, want] of [
    ['https://app.example', failed, permission],
    ['https://app.example', new Error('another one'), /^there was no answer$/],
    ['https://x.example', failed, /^there was no answer$/],
    [undefined, failed, /^there was no answer$/],
  ]) {
    globalThis.location = { origin };
    const { client } = start(new FakeService(() => Promise.reject(cause)));
    await assert.rejects(client.call('GET', '/v1/boards'), { status: 0, message: want });
  }
});

test('A call without an answer ends after the timeout, or when its signal aborts', async () => {
  let signal;
  const service = new FakeService((request) => {
    signal = request.signal;
    return new Promise(() => {});
  });
  const { client, clock } = start(service);
  const slow = client.call('GET', '/v1/boards').catch((error) => error);
  await clock.advance(30_000);
  assert.equal((await slow).status, 0);
  assert.ok(signal.aborted);
  const leaving = new AbortController();
  const left = client.call('GET', '/v1/boards', { signal: leaving.signal }).catch((error) => error);
  await settle();
  leaving.abort();
  assert.equal((await left).status, 0);
  assert.ok(signal.aborted);
  assert.deepEqual(clock.waits(), []);
});

test('An address for a phone is given whole, listed, changed and revoked', async () => {
  const service = new FakeService(({ method }) => {
    if (method === 'POST') return respond(201, { id: '7', path: '/v1/in/sb_x', key: 'sb_x' });
    return method === 'DELETE' ? respond(204) : respond(200, { upload_addresses: [{ id: '7' }] });
  });
  const client = createClient({
    baseUrl: 'https://x.example/steps/',
    token: () => 'A',
    fetch: service.fetch,
  });
  const { uploadAddresses } = client;
  const made = await uploadAddresses.add({ name: 'phone', board: 'steps' });
  assert.equal(made.address, 'https://x.example/steps/v1/in/sb_x');
  assert.deepEqual(await uploadAddresses.list(), [{ id: '7' }]);
  await uploadAddresses.change('7', { name: 'watch', time_zone: 'UTC' });
  assert.equal(await uploadAddresses.revoke('7'), undefined);
  assert.deepEqual(
    service.requests.map(({ method, url }) => `${method} ${url.split('/me/')[1]}`),
    [
      'POST upload-addresses',
      'GET upload-addresses',
      'PUT upload-addresses/7',
      'DELETE upload-addresses/7',
    ],
  );
});
