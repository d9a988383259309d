// A phone with the mini program: what WeChat does for it, by its documentation. Requests go to the real service,
// logins and steps come from the fake WeChat.
import { readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { elements, render, textOf } from './wxml.mjs';

export const program = fileURLToPath(new URL('../program', import.meta.url));
const { pages, tabBar } = JSON.parse(readFileSync(join(program, 'app.json'), 'utf8'));

async function post(url, body) {
  const answer = await fetch(url, { method: 'POST', body: JSON.stringify(body) });
  return answer.json();
}

export class Phone {
  online = true;
  permission = undefined; // of scope.werun: what the user answers when asked, kept as the setting
  answers = { werun: true, modal: true };
  days = [];
  counts = {}; // of calls, by name or by method and path
  toasts = [];
  tabs = [];
  failsWith = undefined; // what wx.getWeRunData fails with
  encryptsFor = undefined; // another mini program, whose session key encrypts the steps
  #storage = new Map();
  #modules = new Map();
  #timers = new Set();
  #app;
  #page; // what is in front
  #query = {}; // how the program was entered
  #loaded = new Map();

  constructor({ service, wechat, appid, board, person, language = 'zh_CN', data = {} }) {
    Object.assign(this, { service, wechat, appid, board, person, language });
    Object.entries(data).forEach(([key, value]) => this.#storage.set(key, value));
  }

  // launch starts the program, as from a card with a path, and shows its page.
  async launch(path = pages[0]) {
    this.#app = undefined;
    this.#modules.clear();
    this.#loaded.clear();
    this.#require(join(program, 'app.js'));
    const [page, query] = this.#split(path);
    this.#query = query;
    this.#app.onLaunch?.({ path: page, query });
    this.#app.onShow?.({ path: page, query });
    await this.#show(page, query);
  }

  // hide puts the program into the background. show brings it back, by a card or with the query that it had.
  hide() {
    this.#page.onHide?.();
    this.#app.onHide?.();
  }
  async show(path) {
    const [page, query] = path ? this.#split(path) : [this.#page.path, this.#query];
    this.#query = query;
    this.#app.onShow?.({ path: page, query });
    await this.#show(page, query);
  }
  // close ends the program; what it has stored stays.
  close() {
    if (this.#page) this.hide();
    this.#timers.forEach(clearTimeout);
    this.#timers.clear();
    this.#page = undefined;
  }

  async tab(text) {
    const index = this.tabs.indexOf(text);
    this.#page.onHide?.();
    await this.#show(tabBar.list[index].pagePath, {});
  }

  #split(path) {
    const [page, query = ''] = path.replace(/^\//, '').split('?');
    if (!pages.includes(page)) throw new Error(`${page} is not in app.json`);
    return [page, Object.fromEntries(new URLSearchParams(query))];
  }

  async #show(path, query) {
    let page = this.#loaded.get(path);
    if (!page) {
      this.#require(join(program, `${path}.js`));
      page = this.#loaded.get('new');
      page.path = path;
      this.#loaded.set(path, page);
      this.#page = page;
      page.onLoad?.(query);
    }
    this.#page = page;
    await page.onShow?.();
  }

  #newPage(options) {
    const plain = (value) => {
      const text = JSON.stringify(value, (_, part) => {
        if (part === undefined || typeof part === 'function')
          throw new Error('setData takes JSON only');
        return part;
      });
      return JSON.parse(text);
    };
    const page = { ...options, data: plain(options.data) };
    page.setData = (change) => Object.assign(page.data, plain(change));
    this.#loaded.set('new', page);
  }

  // #require loads a module of the program for this phone, with what mini programs have as globals.
  #require(file) {
    const path = file.endsWith('.js') ? file : `${file}.js`;
    if (this.#modules.has(path)) return this.#modules.get(path).exports;
    const module = { exports: {} };
    this.#modules.set(path, module);
    const globals = {
      module,
      exports: module.exports,
      require: (name) => this.#require(resolve(dirname(path), name)),
      wx: this.#wx,
      App: (options) => (this.#app = { ...options }),
      Page: (options) => this.#newPage(options),
      getApp: () => this.#app,
      setTimeout: (run, wait) => {
        // Polls follow each other faster than on a phone; what limits an answer stays.
        const timer = setTimeout(run, wait < 5000 ? wait / 30 : wait);
        this.#timers.add(timer);
        return timer;
      },
      clearTimeout: (timer) => {
        clearTimeout(timer);
        this.#timers.delete(timer);
      },
      // Mini programs, or some phones', lack these.
      globalThis: undefined,
      fetch: undefined,
      AbortController: undefined,
      URL: undefined,
      window: undefined,
      process: undefined,
    };
    const source =
      path === join(program, 'config.js')
        ? `module.exports = ${JSON.stringify({ baseUrl: this.service, appid: this.appid, board: this.board })}`
        : readFileSync(path, 'utf8');
    new Function(...Object.keys(globals), `(() => {${source}\n})()`)(...Object.values(globals));
    return module.exports;
  }

  count(name) {
    this.counts[name] = (this.counts[name] ?? 0) + 1;
  }

  // #answer calls back as WeChat's functions do.
  async #answer(name, { success, fail, complete }, work) {
    this.count(name);
    let result;
    try {
      result = { errMsg: `${name}:ok`, ...(await work()) };
    } catch (error) {
      result =
        error instanceof Error
          ? { errMsg: `${name}:fail ${error.message}`, errno: error.errno }
          : error;
      fail?.(result);
      complete?.(result);
      return;
    }
    success?.(result);
    complete?.(result);
  }

  #wx = {
    getAppBaseInfo: () => ({ language: this.language }),
    setTabBarItem: ({ index, text }) => (this.tabs[index] = text),
    setNavigationBarTitle: ({ title }) => (this.#page.title = title),
    showToast: ({ title }) => this.toasts.push(title),
    getStorageSync: (key) => structuredClone(this.#storage.get(key) ?? ''),
    setStorageSync: (key, value) => void this.#storage.set(key, structuredClone(value)),
    removeStorageSync: (key) => void this.#storage.delete(key),
    clearStorageSync: () => this.#storage.clear(),
    showModal: (options) =>
      this.#answer('showModal', options, async () => ({
        confirm: this.answers.modal,
        cancel: !this.answers.modal,
      })),
    getSetting: (options) =>
      this.#answer('getSetting', options, async () => ({ authSetting: this.#settings() })),
    openSetting: (options) =>
      this.#answer('openSetting', options, async () => {
        if (this.permission !== undefined) this.permission = this.answers.werun;
        return { authSetting: this.#settings() };
      }),
    login: (options) =>
      this.#answer('login', options, async () => {
        if (!this.online) throw new Error('network error');
        return post(`${this.wechat}/phone/login`, { appid: this.appid, person: this.person });
      }),
    getWeRunData: (options) =>
      this.#answer('getWeRunData', options, async () => {
        if (this.failsWith) throw Object.assign(new Error(this.failsWith.message), this.failsWith);
        this.permission ??= this.answers.werun; // the user is asked once
        if (!this.permission) throw new Error('auth deny');
        const { encryptsFor = this.appid, person, days } = this;
        return post(`${this.wechat}/phone/werun`, { appid: encryptsFor, person, days });
      }),
    request: (options) => {
      const { url, method = 'GET', header, data } = options;
      const path = new URL(url).pathname;
      return this.#answer('request', options, async () => {
        this.count(`${method} ${path}`);
        if (!this.online) throw Object.assign(new Error(''), { errno: 600001 });
        const answer = await fetch(url, { method, headers: header, body: data });
        const text = await answer.text();
        let parsed = text;
        try {
          parsed = JSON.parse(text);
        } catch {
          // dataType json leaves other texts as they are
        }
        const headers = Object.fromEntries(answer.headers);
        return { statusCode: answer.status, header: headers, data: parsed };
      });
    },
  };

  #settings() {
    return this.permission === undefined ? {} : { 'scope.werun': this.permission };
  }

  // replaceKey makes WeChat replace the session key.
  async replaceKey() {
    await post(`${this.wechat}/phone/replace-key`, { appid: this.appid, person: this.person });
  }

  stored(key) {
    return this.#storage.get(key);
  }
  store(key, value) {
    this.#storage.set(key, value);
  }

  get page() {
    return this.#page;
  }
  tree() {
    return render(join(program, `${this.#page.path}.wxml`), this.#page.data);
  }
  text() {
    return textOf(this.tree());
  }

  // textsOf returns the text of each element with a class.
  textsOf(name) {
    return [...elements(this.tree())]
      .filter(({ attributes }) => attributes.class?.split(' ').includes(name))
      .map(({ children }) => textOf(children));
  }

  // #find returns the element in front whose text is this, and that has one of these attributes.
  #find(text, ...attributes) {
    const found = [...elements(this.tree())].filter(
      (node) =>
        attributes.some((name) => name in node.attributes) && textOf(node.children).includes(text),
    );
    const node = found.find((one) => textOf(one.children) === text) ?? found[0];
    if (!node) throw new Error(`nothing to tap says ${text}: ${this.text()}`);
    if (node.attributes.disabled) throw new Error(`${text} is disabled`);
    return node;
  }
  static #dataset({ attributes }) {
    return Object.fromEntries(
      Object.entries(attributes)
        .filter(([name]) => name.startsWith('data-'))
        .map(([name, value]) => [name.slice('data-'.length), value]),
    );
  }

  async tap(text) {
    const node = this.#find(text, 'bindtap');
    const target = { dataset: Phone.#dataset(node) };
    await this.#page[node.attributes.bindtap]({ target, currentTarget: target });
  }

  // type enters a text into the input with a placeholder.
  type(placeholder, text) {
    const input = [...elements(this.tree())].find(
      ({ tag, attributes }) => tag === 'input' && attributes.placeholder === placeholder,
    );
    if (!input?.model) throw new Error(`no input ${placeholder}: ${this.text()}`);
    this.#page.setData({ [input.model]: text });
  }

  // submit enters texts into a form, by their names, and taps its button.
  async submit(text, value) {
    const button = this.#find(text, 'form-type');
    const form = button.around.findLast(({ tag }) => tag === 'form');
    const names = [...elements(form.children)]
      .map(({ attributes }) => attributes.name)
      .filter(Boolean);
    if (names.join() !== Object.keys(value).join()) throw new Error(`the form has ${names}`);
    await this.#page[form.attributes.bindsubmit]({ detail: { value } });
  }

  // share returns the card that a button sends, or the menu.
  share(text) {
    if (!text) return this.#page.onShareAppMessage({ from: 'menu' });
    const node = this.#find(text, 'open-type');
    return this.#page.onShareAppMessage({
      from: 'button',
      target: { dataset: Phone.#dataset(node) },
    });
  }

  // until waits until the page in front says something.
  async until(what) {
    const end = Date.now() + 20_000;
    const says = typeof what === 'function' ? what : () => this.text().includes(what);
    while (!says()) {
      if (Date.now() > end) throw new Error(`never ${what}: ${this.text()} ${this.toasts}`);
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  }
}
