// The reference of the API. Its examples work as they stand: their dates are moved so
// that the day of the examples is the current one, and in the demo a token is filled in.
const dayOfExamples = '2026-11-20';

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

// signInToDemo returns a token of the demo's first user, and the current day of its
// board of days.
async function signInToDemo() {
  const { people } = await fetchJSON('/demo/people');
  const { token } = people[0];
  const { boards } = await fetchJSON('/v1/boards', { Authorization: `Bearer ${token}` });
  return { token, day: boards.find(({ kind }) => kind === 'daily').current.date };
}

async function start() {
  const isDemo = document.documentElement.hasAttribute('data-demo');
  const description = await (await fetch('/openapi.json')).text();
  const { token, day } = isDemo ? await signInToDemo() : { day: localDay() };
  window.ui = SwaggerUIBundle({
    spec: JSON.parse(moveDates(description, day)),
    dom_id: '#docs',
    deepLinking: true,
    validatorUrl: null,
    persistAuthorization: false,
    onComplete: () => token && window.ui.preauthorizeApiKey('bearer', token),
  });
}

start();
