import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createClient } from '../dist/index.js';
import { FakeClock, FakeService, FakeStream, refuse, respond, settle } from './fakes.mjs';

const ranking = (total) => ({ board: 'steps', total, entries: [] });
const polled = (total) => () => respond(200, ranking(total));
const offline = () => Promise.reject(new TypeError('failed to fetch'));

// start follows the ranking of a service with these answers. seen has what onChange got.
function start(answers, options = {}) {
  const service = new FakeService(...answers);
  const clock = new FakeClock();
  const { token = () => 'A', ...rest } = options;
  const client = createClient({ baseUrl: '', token, fetch: service.fetch, clock });
  const seen = [];
  const onChange = ({ state, ranking: shown, error }) =>
    seen.push(`${state} ${shown?.total ?? '-'}${error ? ` ${error.status}` : ''}`);
  const live = client.live({ board: 'steps', limit: 20, onChange, ...rest });
  const paths = () => service.requests.map(({ url }) => url);
  return { live, service, clock, seen, paths };
}

const streamPath = '/v1/boards/steps/friends/stream?limit=20';
const pollPath = '/v1/boards/steps/friends?limit=20';

test('Each event of the stream is a ranking, however it is cut into pieces', async () => {
  const stream = new FakeStream();
  const { live, seen, paths } = start([stream.answer]);
  await settle();
  const text = `event: ranking\ndata: ${JSON.stringify(ranking(1))}\n\n: still here\n\n`;
  for (const part of text) stream.send(part);
  stream.event('ranking', ranking(2));
  await settle();
  assert.deepEqual(seen, ['live 1', 'live 2']);
  assert.deepEqual(paths(), [streamPath]);
  live.stop();
  assert.ok(stream.aborted);
});

test('The ranking of a group is followed as the one among friends', async () => {
  const stream = new FakeStream();
  const { live, seen, paths, clock } = start([stream.answer, polled(2), polled(3)], {
    group: 'g/1',
  });
  await settle();
  stream.event('ranking', ranking(1));
  await live.refresh();
  await settle();
  assert.deepEqual(seen, ['live 1', 'live 2']);
  const path = '/v1/boards/steps/groups/g%2F1';
  assert.deepEqual(paths(), [`${path}/stream?limit=20`, `${path}?limit=20`]);
  live.stop();
  await clock.advance(60_000);
  assert.equal(paths().length, 2);
});

test('A stream that ends is opened again after half a second', async () => {
  const [first, second] = [new FakeStream(), new FakeStream()];
  const { live, seen, paths, clock } = start([first.answer, second.answer]);
  await settle();
  first.event('ranking', ranking(1));
  first.end();
  await clock.advance(500);
  second.event('ranking', ranking(2));
  await settle();
  assert.deepEqual(seen, ['live 1', 'live 2']);
  assert.deepEqual(paths(), [streamPath, streamPath]);
  live.stop();
});

test('A stream without a first event for 5 s is polled, and tried again', async () => {
  const [held, later] = [new FakeStream(), new FakeStream()];
  const { live, seen, paths, clock } = start([
    held.answer,
    polled(1),
    polled(2),
    polled(3),
    polled(4),
    polled(5),
    later.answer,
  ]);
  await clock.advance(4999);
  assert.deepEqual(paths(), [streamPath]);
  await clock.advance(1);
  assert.ok(held.aborted);
  assert.deepEqual(seen, ['polling 1']);
  await clock.advance(15_000);
  later.event('ranking', ranking(6));
  await settle();
  assert.deepEqual(seen, [
    'polling 1',
    'polling 2',
    'polling 3',
    'polling 4',
    'polling 5',
    'live 6',
  ]);
  assert.equal(paths().at(-1), streamPath);
  live.stop();
});

test('Comments keep a stream open, and 25 s of silence end it', async () => {
  const stream = new FakeStream();
  const { live, seen, clock } = start([stream.answer, polled(2)]);
  await settle();
  stream.event('ranking', ranking(1));
  for (let i = 0; i < 10; i += 1) {
    await clock.advance(15_000);
    stream.send(': still here\n\n');
    await settle();
  }
  await clock.advance(24_999);
  assert.deepEqual(seen, ['live 1']);
  await clock.advance(1);
  assert.deepEqual(seen, ['live 1', 'offline 1 0', 'polling 2']);
  live.stop();
});

test('Without the service the last ranking stays, and polling goes on', async () => {
  const stream = new FakeStream();
  const { live, seen, clock, service } = start([stream.answer, offline]);
  await settle();
  stream.event('ranking', ranking(1));
  stream.end();
  await clock.advance(7000);
  assert.equal(seen[0], 'live 1');
  assert.ok(
    seen.length > 1 && seen.slice(1).every((state) => state === 'offline 1 0'),
    seen.join(),
  );
  service.answers = [polled(2)];
  await clock.advance(3000);
  assert.equal(seen.at(-1), 'polling 2');
  live.stop();
});

test('Retry-After holds back streams and polls', async () => {
  const busy = () => refuse(429, 'rate_limited', { headers: { 'Retry-After': '30' } });
  const { live, seen, clock, service } = start([busy, polled(1)]);
  await clock.advance(29_999);
  assert.deepEqual(seen, ['error - 429']);
  assert.equal(service.requests.length, 1);
  await clock.advance(1);
  assert.deepEqual(seen, ['error - 429', 'polling 1']);
  live.stop();
});

test('A permanent error ends following', async () => {
  const { seen, clock, service } = start([() => refuse(404, 'board_not_found')]);
  await clock.advance(600_000);
  assert.deepEqual(seen, ['error - 404']);
  assert.equal(service.requests.length, 1);
});

test('When the token expires the stream goes on with another one', async () => {
  const [first, second] = [new FakeStream(), new FakeStream()];
  const token = (refused) => (refused ? 'B' : 'A');
  const { live, seen, clock, service } = start([first.answer, second.answer], { token });
  await settle();
  first.event('ranking', ranking(1));
  first.event('error', { status: 401, code: 'unauthenticated' });
  first.end();
  await clock.advance(500);
  second.event('ranking', ranking(2));
  await settle();
  assert.deepEqual(seen, ['live 1', 'live 2']);
  assert.equal(service.requests.at(-1).headers.Authorization, 'Bearer B');
  live.stop();
});

test('A paused client is silent, and shows the present ranking when it resumes', async () => {
  const [first, second] = [new FakeStream(), new FakeStream()];
  const { live, seen, clock, service } = start([first.answer, second.answer]);
  await settle();
  first.event('ranking', ranking(1));
  await settle();
  live.pause();
  await clock.advance(600_000);
  assert.ok(first.aborted);
  assert.equal(service.requests.length, 1);
  live.resume();
  await settle();
  second.event('ranking', ranking(2));
  await settle();
  assert.deepEqual(seen, ['live 1', 'live 2']);
  live.stop();
  live.resume();
  await clock.advance(600_000);
  assert.equal(service.requests.length, 2);
  assert.deepEqual(clock.waits(), []);
});

test('A platform without streams is polled', async () => {
  const withoutBody = () => ({
    ok: true,
    status: 200,
    headers: new Headers(),
    json: async () => ({}),
  });
  const { live, seen, paths, clock } = start([withoutBody, polled(1)]);
  await clock.advance(30_000);
  assert.equal(paths().filter((path) => path === streamPath).length, 1);
  assert.ok(seen.length > 5 && seen.every((state) => state === 'polling 1'));
  live.stop();
  const never = start([polled(1)], { stream: false });
  await never.clock.advance(30_000);
  assert.ok(never.paths().every((path) => path === pollPath));
  never.live.stop();
});

test('The offset of the clock is read anew for each connection', async () => {
  const [first, second] = [new FakeStream(), new FakeStream()];
  const offsets = ['+01:00', '+02:00', '-03:30'];
  const utcOffset = () => offsets.shift();
  const { live, paths, clock } = start([first.answer, second.answer, polled(3)], { utcOffset });
  await settle();
  first.event('ranking', ranking(1));
  first.end();
  await clock.advance(500);
  second.event('ranking', ranking(2));
  await settle();
  await live.refresh();
  assert.deepEqual(paths(), [
    `${streamPath}&utc_offset=%2B01%3A00`,
    `${streamPath}&utc_offset=%2B02%3A00`,
    `${pollPath}&utc_offset=-03%3A30`,
  ]);
  live.stop();
});

test('Streams and polls include what is asked for', async () => {
  const { live, paths } = start([new FakeStream().answer, polled(1)], { include: 'likes' });
  await settle();
  await live.refresh();
  assert.deepEqual(paths(), [`${streamPath}&include=likes`, `${pollPath}&include=likes`]);
  live.stop();
});

test('refresh shows the ranking at once', async () => {
  const stream = new FakeStream();
  const { live, seen } = start([stream.answer, polled(2)]);
  await settle();
  stream.event('ranking', ranking(1));
  await settle();
  await live.refresh();
  assert.deepEqual(seen, ['live 1', 'live 2']);
  live.stop();
});
