// The ranking of one person, read again every two seconds.
const every = 2000;
const $ = (id) => document.getElementById(id);
const number = new Intl.NumberFormat();
let token = '';
let timer = 0;

async function start() {
  const demo = await fetch('/demo/people').catch(() => null);
  if (demo && demo.ok) {
    const { people } = await demo.json();
    for (const person of people) {
      $('person').append(new Option(person.nickname || person.user_id, person.token));
    }
    $('person-field').hidden = false;
    $('person').addEventListener('change', () => choose($('person').value));
    choose($('person').value);
    return;
  }
  $('login').hidden = false;
  say('Enter a token to see your ranking.');
  $('login').addEventListener('submit', (event) => {
    event.preventDefault();
    choose($('token').value.trim());
  });
}

function choose(chosen) {
  token = chosen;
  clearTimeout(timer);
  refresh();
}

async function refresh() {
  const asked = token;
  try {
    const answer = await fetch('/v1/boards/steps/friends?limit=100', { headers: { Authorization: `Bearer ${asked}` } });
    const body = await answer.json();
    if (asked !== token) return;
    if (answer.ok) show(body);
    else say(body.detail);
  } catch {
    say('The service does not answer; trying again.');
  }
  timer = setTimeout(refresh, every);
}

function show(ranking) {
  const best = ranking.entries.length ? ranking.entries[0].score : 0;
  $('ranking').replaceChildren(...ranking.entries.map((entry) => line(entry, best, ranking.me)));
  $('me').replaceChildren();
  if (ranking.me) {
    const place = document.createElement('strong');
    place.textContent = `#${ranking.me.rank}`;
    $('me').append(place, ` of ${ranking.total} — ${number.format(ranking.me.score)} steps`);
  }
  say(ranking.entries.length ? `${ranking.date}, live` : 'No steps yet today.');
}

function line(entry, best, me) {
  const item = document.createElement('li');
  if (me && entry.user_id === me.user_id) item.className = 'own';
  const bar = document.createElement('progress');
  bar.max = Math.max(best, 1);
  bar.value = entry.score;
  bar.setAttribute('aria-hidden', 'true');
  item.append(part('rank', entry.rank), part('name', entry.nickname || entry.user_id), part('score', number.format(entry.score)), bar);
  return item;
}

function part(name, text) {
  const span = document.createElement('span');
  span.className = name;
  span.textContent = text;
  return span;
}

function say(text) {
  $('state').textContent = text;
}

start();
