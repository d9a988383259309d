// Calls of the API.

// Problem is an error that the service has answered; of status 0 where it has
// not answered at all.
export class Problem extends Error {
  constructor(status, body) {
    super(body?.detail ?? '');
    this.status = status;
    this.code = body?.code ?? '';
  }
}

async function send(token, path, { method = 'GET', body, signal } = {}) {
  const headers = {};
  if (token) headers.Authorization = `Bearer ${token}`;
  if (body !== undefined) headers['Content-Type'] = 'application/json';
  let answer;
  try {
    answer = await fetch(path, {
      method,
      headers,
      signal,
      cache: 'no-store',
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new Problem(0);
  }
  if (!answer.ok) throw new Problem(answer.status, await answer.json().catch(() => null));
  return answer;
}

// call makes a call and answers its JSON; null where there is none.
export async function call(token, path, options) {
  const answer = await send(token, path, options);
  if (answer.status === 204) return null;
  return answer.json().catch((error) => {
    if (error.name === 'AbortError') throw error;
    throw new Problem(0);
  });
}

// stream reads server-sent events until they end, and tells each to
// onEvent(name, data); any sign of life goes to onLife.
export async function stream(token, path, { signal, onEvent, onLife }) {
  const answer = await send(token, path, { signal });
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    let chunk;
    try {
      chunk = await reader.read();
    } catch (error) {
      if (signal.aborted) throw error;
      throw new Problem(0);
    }
    if (chunk.done) return;
    onLife();
    const blocks = (rest + chunk.value).split('\n\n');
    rest = blocks.pop();
    for (const block of blocks) {
      let name = 'message';
      let data = '';
      for (const line of block.split('\n')) {
        if (line.startsWith('event: ')) name = line.slice(7);
        if (line.startsWith('data: ')) data += line.slice(6);
      }
      if (data) onEvent(name, JSON.parse(data));
    }
  }
}
