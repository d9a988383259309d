import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createClient } from '../dist/index.js';
import { FakeClock, FakeService, FakeStorage, refuse, respond, settle } from './fakes.mjs';

const accept = () => respond(200, { accepted: [] });
const unavailable = () => refuse(503, 'unavailable', { headers: { 'Retry-After': '20' } });
const offline = () => Promise.reject(new TypeError('failed to fetch'));

// start returns uploads over a service with these answers, and what they report.
function start(
  answers,
  { storage = new FakeStorage(), clock = new FakeClock(), user = '1', order } = {},
) {
  const service = new FakeService(...answers);
  const client = createClient({ baseUrl: '', token: () => 'A', fetch: service.fetch, clock });
  const refused = [];
  const accepted = [];
  const held = [];
  const uploads = client.uploads({
    board: 'steps',
    user,
    storage,
    order,
    random: () => 1,
    onRefused: ({ date, score }, { code }) => refused.push(`${date} ${score} ${code}`),
    onAccepted: ({ date, score }) => accepted.push(`${date} ${score}`),
    onHeld: ({ date, score }) => held.push(`${date} ${score}`),
  });
  const sent = () =>
    service.requests.map(({ body }) =>
      body.scores.map(({ date, score }) => `${date.slice(8)}:${score}`).join(' '),
    );
  return { uploads, service, storage, clock, refused, accepted, held, sent };
}

test('The highest total of a day is sent, and then forgotten', async () => {
  const { uploads, sent, accepted, storage } = start([accept]);
  await Promise.all([
    uploads.add('2026-11-20', 10),
    uploads.add('2026-11-20', 30),
    uploads.add('2026-11-20', 20),
  ]);
  await settle();
  assert.equal(sent().at(-1), '20:30');
  assert.equal(accepted.at(-1), '2026-11-20 30');
  assert.deepEqual(await uploads.pending(), []);
  assert.equal(storage.items.size, 0);
});

test('Where the lowest score ranks first, the lowest total of a day is sent', async () => {
  const { uploads, sent, accepted, storage } = start([offline, accept], { order: 'low' });
  await uploads.add('2026-11-20', 30);
  await settle();
  await Promise.all([uploads.add('2026-11-20', 10), uploads.add('2026-11-20', 20)]);
  await uploads.flush();
  await settle();
  assert.equal(sent().at(-1), '20:10');
  assert.deepEqual(accepted, ['2026-11-20 10']);
  assert.equal(storage.items.size, 0);
});

test('Numbers are rounded down, and nothing else is taken', async () => {
  const { uploads, sent, accepted } = start([accept]);
  await uploads.add('2026-11-20', 11623.858733);
  await uploads.add('2026-11-19', 0.5);
  await settle();
  assert.deepEqual(accepted, ['2026-11-20 11623', '2026-11-19 0']);
  const calls = sent().length;
  for (const score of [NaN, -1, -0.5, Infinity, '11623', '', null, undefined, true, [5], 5n]) {
    await assert.rejects(uploads.add('2026-11-20', score), TypeError);
  }
  for (const date of ['', '20261120', '2026-11-20T08:00', '__proto__', new Date(), undefined]) {
    await assert.rejects(uploads.add(date, 5), TypeError);
  }
  assert.equal(sent().length, calls);
  assert.deepEqual(await uploads.pending(), []);
});

test('What could not be sent survives a restart and is sent again', async () => {
  const first = start([offline]);
  await first.uploads.add('2026-11-19', 100);
  await first.uploads.add('2026-11-20', 200);
  await settle();
  first.uploads.stop();
  const second = start([accept], { storage: first.storage });
  assert.deepEqual(await second.uploads.pending(), [
    { date: '2026-11-19', score: 100 },
    { date: '2026-11-20', score: 200 },
  ]);
  await second.uploads.flush();
  assert.deepEqual(second.sent(), ['19:100 20:200']);
  assert.deepEqual(await second.uploads.pending(), []);
});

test('A total that grows while it is on its way is sent again', async () => {
  let answer;
  const { uploads, sent } = start([
    () =>
      new Promise((resolve) => {
        answer = resolve;
      }),
    accept,
  ]);
  await uploads.add('2026-11-20', 10);
  await settle();
  await uploads.add('2026-11-20', 20);
  answer(accept());
  await settle();
  assert.deepEqual(sent(), ['20:10', '20:20']);
  assert.deepEqual(await uploads.pending(), []);
});

test('A held total is reported, and a lower one that was added meanwhile is sent', async () => {
  let answer;
  const hold = () =>
    respond(200, { accepted: [{ date: '2026-11-20', score: 90_000, held: true }], rejected: [] });
  const { uploads, sent, accepted, held } = start([
    () =>
      new Promise((resolve) => {
        answer = resolve;
      }),
    accept,
  ]);
  await uploads.add('2026-11-20', 90_000);
  await settle();
  await uploads.add('2026-11-20', 8_100);
  await uploads.add('2026-11-20', 8_000);
  answer(hold());
  await settle();
  assert.deepEqual(sent(), ['20:90000', '20:8000']);
  assert.deepEqual(held, ['2026-11-20 90000']);
  assert.deepEqual(accepted, ['2026-11-20 90000', '2026-11-20 8000']);
  await uploads.add('2026-11-20', 8_200);
  await settle();
  assert.equal(sent().at(-1), '20:8200');
  assert.deepEqual(await uploads.pending(), []);
});

test('Failures are repeated after 1 s, 2 s, 4 s and so on, up to a minute', async () => {
  const { uploads, service, clock } = start([offline]);
  await uploads.add('2026-11-20', 10);
  await settle();
  for (const seconds of [1, 2, 4, 8, 16, 32, 60, 60]) {
    assert.deepEqual(clock.waits(), [seconds * 1000]);
    await uploads.add('2026-11-20', 10 + seconds); // starts no call before its time
    await clock.advance(seconds * 1000);
  }
  assert.equal(service.requests.length, 9);
  service.answers = [accept];
  await uploads.flush();
  assert.deepEqual(await uploads.pending(), []);
});

test('Retry-After holds uploads back, also those that the app asks for', async () => {
  const { uploads, service, clock } = start([unavailable, accept]);
  await uploads.add('2026-11-20', 10);
  await settle();
  await uploads.flush();
  await clock.advance(19_999);
  assert.equal(service.requests.length, 1);
  await clock.advance(1);
  assert.equal(service.requests.length, 2);
  assert.deepEqual(await uploads.pending(), []);
});

// reject answers as the service does that takes the days for which code returns nothing.
const reject =
  (code) =>
  ({ body }) => {
    const rejected = body.scores
      .map(({ date }, index) => ({ index, date, code: code(date), detail: 'no' }))
      .filter((item) => item.code);
    return rejected.length < body.scores.length
      ? respond(200, { accepted: [], rejected })
      : respond(422, { status: 422, code: rejected[0].code, detail: 'no', rejected });
  };
const codeOf = (date) => {
  if (date < '2026-11-18') return 'date_closed';
  return date > '2026-11-20' ? 'date_in_future' : undefined;
};

test('After 20 days offline one call sends all, and closed days are reported and dropped', async () => {
  const { uploads, service, sent, refused, accepted } = start([offline]);
  for (let day = 1; day <= 20; day += 1) {
    await uploads.add(`2026-11-${String(day).padStart(2, '0')}`, day);
  }
  await settle();
  const before = service.requests.length;
  service.answers = [reject(codeOf)];
  await uploads.flush();
  assert.equal(service.requests.length, before + 1);
  assert.equal(sent().at(-1).split(' ').length, 20);
  assert.deepEqual(accepted, ['2026-11-18 18', '2026-11-19 19', '2026-11-20 20']);
  assert.equal(refused.length, 17);
  assert.equal(refused[0], '2026-11-01 1 date_closed');
  assert.deepEqual(await uploads.pending(), []);
});

test('A day that has not begun is kept, and sent again an hour later, or by flush', async () => {
  const { uploads, service, sent, refused, accepted, clock, storage } = start([offline]);
  await uploads.add('2026-11-17', 17);
  await uploads.add('2026-11-21', 21);
  await settle();
  service.answers = [reject(codeOf)]; // rejects both
  await uploads.flush();
  assert.deepEqual(refused, ['2026-11-17 17 date_closed']);
  assert.deepEqual(await uploads.pending(), [{ date: '2026-11-21', score: 21 }]);
  assert.deepEqual(clock.waits(), [3_600_000]);

  await uploads.add('2026-11-20', 20); // is not held back
  await settle();
  assert.equal(sent().at(-1), '20:20 21:21');
  assert.deepEqual(accepted, ['2026-11-20 20']);
  const before = service.requests.length;
  await uploads.flush();
  assert.equal(service.requests.length, before + 1);
  await clock.advance(3_599_999);
  assert.equal(service.requests.length, before + 1);
  service.answers = [reject(() => undefined)];
  await clock.advance(1);
  assert.deepEqual(accepted, ['2026-11-20 20', '2026-11-21 21']);
  assert.equal(storage.items.size, 0);
  assert.deepEqual(clock.waits(), []);
});

test('A malformed day is reported once and dropped, and the others are sent', async () => {
  const malformed = () => refuse(422, 'validation_failed', { locations: ['body.scores[0].date'] });
  const { uploads, service, sent, refused } = start([offline]);
  await uploads.add('2026-11-10', 1);
  await uploads.add('2026-11-20', 2);
  await settle();
  service.answers = [malformed, accept];
  await uploads.flush();
  assert.deepEqual(sent().slice(-2), ['10:1 20:2', '20:2']);
  assert.deepEqual(refused, ['2026-11-10 1 validation_failed']);
  assert.deepEqual(await uploads.pending(), []);
});

test('A refusal that names no day is found by sending one day at a time', async () => {
  const oneIsBad = ({ body }) =>
    body.scores.some(({ score }) => score === 1) ? refuse(403, 'forbidden') : accept();
  const { uploads, service, refused } = start([offline]);
  await uploads.add('2026-11-19', 1);
  await uploads.add('2026-11-20', 2);
  await settle();
  service.answers = [oneIsBad];
  await uploads.flush();
  assert.deepEqual(refused, ['2026-11-19 1 forbidden']);
  assert.deepEqual(await uploads.pending(), []);
});

test('408, 429, 401 and 5xx drop nothing', async () => {
  for (const status of [401, 408, 429, 500, 502, 503]) {
    const { uploads, refused } = start([() => refuse(status, 'x')]);
    await uploads.add('2026-11-20', 10);
    await settle();
    assert.deepEqual(refused, []);
    assert.equal((await uploads.pending()).length, 1, `${status}`);
    uploads.stop();
  }
});

test('More than 31 days are sent in several calls, the newest first', async () => {
  const { uploads, service, sent } = start([offline]);
  for (let day = 10; day < 31; day += 1) {
    await uploads.add(`2026-10-${day}`, day);
    await uploads.add(`2026-11-${day}`, day);
  }
  await settle();
  service.requests.length = 0;
  service.answers = [accept];
  await uploads.flush();
  assert.deepEqual(
    sent().map((days) => days.split(' ').length),
    [31, 11],
  );
  assert.ok(sent()[0].endsWith('30:30'));
  assert.deepEqual(await uploads.pending(), []);
});

test('Users and boards keep their totals apart, and two windows share them', async () => {
  const first = start([offline]);
  await first.uploads.add('2026-11-20', 10);
  const { storage } = first;
  assert.deepEqual(await start([accept], { storage, user: '2' }).uploads.pending(), []);
  const window = start([offline], { storage });
  await window.uploads.add('2026-11-20', 5);
  await window.uploads.add('2026-11-19', 7);
  assert.deepEqual(await first.uploads.pending(), [
    { date: '2026-11-19', score: 7 },
    { date: '2026-11-20', score: 10 },
  ]);
  first.uploads.stop();
  window.uploads.stop();
});

test('A damaged storage counts as empty, and one that fails is reported by add', async () => {
  const { uploads, storage, sent } = start([accept]);
  storage.items.set('stepboard:steps:1', '{"2026-11-20":');
  await uploads.add('2026-11-20', 10);
  await settle();
  assert.deepEqual(sent(), ['20:10']);
  storage.setItem = () => Promise.reject(new Error('full'));
  await assert.rejects(uploads.add('2026-11-20', 20), /full/);
});
