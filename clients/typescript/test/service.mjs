// A process that uses the built client, for tests with a real service:
//
//   node service.mjs uploads|live URL TOKEN,TOKEN… FILE
//
// Each further token is used when the one before is refused. FILE is the storage. Each line
// of standard input is a command; each event is a line of standard output.
import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { createClient } from '../dist/index.js';

const [role, baseUrl, list, file] = process.argv.slice(2);
const tokens = list.split(',');
const client = createClient({ baseUrl, token: () => tokens.shift() ?? '' });
const print = (...words) => console.log(words.join(' '));

const storage = {
  getItem: () => {
    try {
      return readFileSync(file, 'utf8');
    } catch {
      return null;
    }
  },
  setItem: (key, value) => {
    writeFileSync(`${file}.new`, value);
    renameSync(`${file}.new`, file);
  },
  removeItem: () => rmSync(file),
};

function startUploads() {
  const uploads = client.uploads({
    board: 'steps',
    user: '1',
    storage,
    onAccepted: ({ date, score }) => print('accepted', date, score),
    onRefused: ({ date, score }, { code }) => print('refused', date, score, code),
  });
  uploads.flush();
  return {
    add: async (date, score) => {
      await uploads.add(date, Number(score));
      print('stored', date, score);
    },
    pending: async () => print('pending', JSON.stringify(await uploads.pending())),
    stop: () => uploads.stop(),
  };
}

function startLive() {
  const live = client.live({
    board: 'steps',
    onChange: ({ state, ranking, error }) => print(state, error ? error.status : ranking.me?.score),
  });
  return { stop: () => live.stop() };
}

const commands = role === 'uploads' ? startUploads() : startLive();
createInterface({ input: process.stdin }).on('line', (line) => {
  const [command, ...words] = line.split(' ');
  commands[command](...words);
  if (command === 'stop') process.stdin.destroy();
});
