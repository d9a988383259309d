// Fakes of the platform: a clock, a storage and a service.

// FakeClock runs timers when the test advances it.
export class FakeClock {
  #now = Date.parse('2026-11-20T13:00:00Z');
  #timers = new Map();
  #next = 1;

  now = () => this.#now;

  setTimeout = (run, milliseconds) => {
    this.#timers.set(this.#next, { at: this.#now + milliseconds, run });
    return this.#next++;
  };

  clearTimeout = (timer) => void this.#timers.delete(timer);

  // waits returns after how many milliseconds the timers are due.
  waits() {
    return [...this.#timers.values()].map(({ at }) => at - this.#now).sort((a, b) => a - b);
  }

  // advance moves the clock, and runs what is due and what follows from it.
  async advance(milliseconds) {
    const end = this.#now + milliseconds;
    for (;;) {
      await settle();
      const due = [...this.#timers]
        .filter(([, { at }]) => at <= end)
        .sort((a, b) => a[1].at - b[1].at)[0];
      if (!due) break;
      this.#timers.delete(due[0]);
      this.#now = due[1].at;
      due[1].run();
    }
    this.#now = end;
    await settle();
  }
}

// settle resolves when all promises that do not wait for a timer have settled.
export async function settle() {
  for (let i = 0; i < 20; i += 1) await new Promise((resolve) => setImmediate(resolve));
}

export class FakeStorage {
  items = new Map();
  getItem = async (key) => this.items.get(key) ?? null;
  setItem = async (key, value) => void this.items.set(key, value);
  removeItem = async (key) => void this.items.delete(key);
}

export function respond(status, body, headers = {}) {
  return new Response(status === 204 ? null : JSON.stringify(body), { status, headers });
}

export const refuse = (status, code, { headers, locations = [] } = {}) =>
  respond(
    status,
    { status, code, detail: code, errors: locations.map((location) => ({ location })) },
    headers,
  );

// FakeService answers each request by the next of its answers, the last one for ever. An
// answer is a function of the request, which may throw.
export class FakeService {
  requests = [];
  constructor(...answers) {
    this.answers = answers;
  }

  fetch = async (url, options) => {
    const request = { url, ...options, body: options.body && JSON.parse(options.body) };
    this.requests.push(request);
    const answer = this.answers.length > 1 ? this.answers.shift() : this.answers[0];
    return answer(request);
  };
}

// FakeStream is an answer that sends events when the test says so.
export class FakeStream {
  #controller;
  #encoder = new TextEncoder();

  answer = ({ signal }) => {
    const body = new ReadableStream({
      start: (controller) => void (this.#controller = controller),
    });
    signal.addEventListener('abort', () => {
      this.aborted = true;
      try {
        this.#controller.error(new Error('aborted'));
      } catch {
        // It has ended.
      }
    });
    return new Response(body, { headers: { 'Content-Type': 'text/event-stream' } });
  };

  send(text) {
    this.#controller.enqueue(this.#encoder.encode(text));
  }

  event(name, data) {
    this.send(`event: ${name}\ndata: ${JSON.stringify(data)}\n\n`);
  }

  end() {
    this.#controller.close();
  }
}
