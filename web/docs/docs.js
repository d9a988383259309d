// The reference of the API. Its examples work as they stand: their dates are moved so
// that the day of the examples is the current one, and in the demo a token is filled in,
// and a group, a friend, and an invitation of its user.
const dayOfExamples = '2026-11-20';
const groupOfExamples = 'kx7wq2m5a4tdzbnc';
const codeOfExamples = 'KX7WQ2M5A4TDZBNC';
const inviteOfExamples = 'HX3PQ7N5B6RDZBNC';

const fetchJSON = async (path, headers) => (await fetch(path, { headers })).json();

// moveDates moves all dates of a text from the day of the examples to another one.
function moveDates(text, day) {
  const distance = Date.parse(day) - Date.parse(dayOfExamples);
  return text.replace(/\b20\d\d-\d\d-\d\d\b/g, (date) =>
    new Date(Date.parse(date) + distance).toISOString().slice(0, 10),
  );
}

// localDay returns the browser's current date.
function localDay() {
  const now = new Date();
  return new Date(now - now.getTimezoneOffset() * 60 * 1000).toISOString().slice(0, 10);
}

// signInToDemo returns a token of the demo's first user, the current day of its board of
// days, a group that the user owns, a friend with a score, and somebody's invite code.
async function signInToDemo() {
  const { people } = await fetchJSON('demo/people');
  const { token, user_id: user } = people[0];
  const get = (path) => fetchJSON(path, { Authorization: `Bearer ${token}` });
  const { boards } = await get('v1/boards');
  const { name, current } = boards.find(({ kind }) => kind === 'daily');
  const { groups } = await get('v1/groups');
  const { entries } = await get(`v1/boards/${name}/friends`);
  const inviter = { Authorization: `Bearer ${people.at(-1).token}` };
  return {
    token,
    day: current.date,
    group: groups.find(({ owner_id: owner }) => owner === user),
    friend: entries.find(({ user_id: id }) => id !== user)?.user_id,
    invite: (await fetchJSON('v1/me/invite', inviter)).invite_code,
  };
}

// fillIn puts a group and an invite code in place of those of the examples, and a friend as the one
// whose score is liked.
function fillIn(text, { group, friend, invite }) {
  if (invite) text = text.replaceAll(inviteOfExamples, invite);
  if (group) {
    text = text
      .replaceAll(groupOfExamples, group.group_id)
      .replaceAll(codeOfExamples, group.invite_code);
  }
  const spec = JSON.parse(text);
  for (const [path, calls] of Object.entries(spec.paths)) {
    if (!friend || !path.includes('/likes/')) continue;
    for (const { parameters } of Object.values(calls)) {
      parameters.find(({ name }) => name === 'id').example = friend;
    }
  }
  return spec;
}

// fetchFirst returns a stream's answer up to its first event. A stream does not end, so the reference
// would never show it.
async function fetchFirst(address, options) {
  const response = await fetch(address, options);
  if (!response.ok) return response;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  for (let done = false; !done && !/^event: .*\n\n/ms.test(text);) {
    const { value = '', done: isDone } = await reader.read();
    text += value;
    done = isDone;
  }
  reader.cancel();
  return new Response(text, response);
}

// followScheme shows the reference in the colours that the visitor prefers.
function followScheme() {
  const prefersDark = matchMedia('(prefers-color-scheme: dark)');
  const follow = () => document.documentElement.classList.toggle('dark-mode', prefersDark.matches);
  prefersDark.addEventListener('change', follow);
  follow();
}

async function start() {
  followScheme();
  const isDemo = document.documentElement.hasAttribute('data-demo');
  const description = await (await fetch('openapi.json')).text();
  const { token, day, ...examples } = isDemo ? await signInToDemo() : { day: localDay() };
  window.ui = SwaggerUIBundle({
    spec: fillIn(moveDates(description, day), examples),
    dom_id: '#docs',
    deepLinking: true,
    validatorUrl: null,
    persistAuthorization: false,
    requestInterceptor: (request) =>
      /\/stream(\?|$)/.test(request.url) ? { ...request, userFetch: fetchFirst } : request,
    onComplete: () => token && window.ui.preauthorizeApiKey('bearer', token),
  });
}

start();
