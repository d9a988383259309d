// The examples of the API's description. They work as they stand: their dates are moved so that the
// day of the examples is the current one, and in the demo a group, a friend, and an invitation of its
// first user are filled in.
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

// describe returns {spec, token}: the API's description with its examples, and in the demo the token of
// its first user.
export async function describe() {
  const isDemo = document.documentElement.hasAttribute('data-demo');
  const response = await fetch('openapi.json');
  if (!response.ok) throw new Error(`openapi.json is answered with ${response.status}`);
  const text = await response.text();
  const { token, day, ...examples } = isDemo ? await signInToDemo() : { day: localDay() };
  return { spec: fillIn(moveDates(text, day), examples), token };
}

const resolve = (spec, { $ref: ref }) => ref && spec.components.schemas[ref.split('/').pop()];

// sample returns an example of a schema.
export function sample(spec, schema) {
  const named = resolve(spec, schema);
  if (named) return sample(spec, named);
  if (schema.oneOf) return sample(spec, schema.oneOf[0]);
  if (schema.examples) return schema.examples[0];
  if (schema.enum) return schema.enum[0];
  const [type] = [schema.type].flat();
  if (type === 'array') return schema.items ? [sample(spec, schema.items)] : [];
  if (type === 'object') {
    const properties = Object.entries(schema.properties ?? {});
    return Object.fromEntries(properties.map(([name, below]) => [name, sample(spec, below)]));
  }
  if (schema.format === 'date') return localDay();
  if (schema.format === 'date-time') return `${localDay()}T04:00:00.000Z`;
  return { string: '…', boolean: false }[type] ?? schema.default ?? schema.minimum ?? 1;
}

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

// commandOf returns the call as a command of a shell, in which TOKEN is the token that most calls need.
export function commandOf(spec, { path, method, operation }) {
  const { parameters = [], requestBody, responses } = operation;
  const query = new URLSearchParams();
  let address = path.slice(1); // relative to this page
  for (const { name, in: place, example } of parameters) {
    if (place === 'path') {
      address = address.replace(`{${name}}`, encodeURIComponent(example ?? name));
    } else if (example !== undefined) {
      query.set(name, example);
    }
  }
  if (query.size > 0) address += `?${query}`;
  const content = requestBody?.content['application/json'];
  const body = content && JSON.stringify(sample(spec, content.schema));
  return [
    'curl',
    responses[200]?.content?.['text/event-stream'] && '-N',
    method !== (body ? 'post' : 'get') && `-X ${method.toUpperCase()}`,
    operation.security?.length !== 0 && '-H "Authorization: Bearer $TOKEN"',
    body && `-d ${quoted(body)}`,
    quoted(new URL(address, document.baseURI).href),
  ]
    .filter(Boolean)
    .join(' ');
}
