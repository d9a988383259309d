const service = require('../../service.js');
const texts = require('../../texts.js');
const { attempt, card, label, say } = require('../../view.js');

const { words } = texts;

// sure asks the user before something is done that can't be undone.
async function sure(content) {
  const { confirm } = await service.ask('showModal', {
    content,
    cancelText: words.cancel,
    confirmText: words.confirm,
  });
  return confirm;
}

Page({
  data: {
    t: words,
    problem: '',
    nickname: '',
    groups: [],
    groupName: '', // as typed
    groupCode: '',
  },

  onLoad() {
    label(words.me);
  },

  onShow() {
    return this.load();
  },

  async load() {
    try {
      const [{ nickname }, groups, code] = await Promise.all([
        service.profile(),
        service.groups(),
        service.friendCode(),
      ]);
      this.friendCode = code;
      this.setData({ nickname, groups, problem: '' });
    } catch (error) {
      this.setData({ problem: texts.problem(error) });
    }
  },

  async rename({ detail }) {
    if (await attempt(() => service.rename(detail.value.nickname))) say(words.saved);
  },

  async create() {
    const body = { name: this.data.groupName };
    await attempt(async () => {
      await service.client.call('POST', '/v1/groups', { body });
      this.setData({ groupName: '', groups: await service.groups() });
    });
  },

  async join() {
    const code = this.data.groupCode.trim();
    await attempt(async () => {
      await service.join({ kind: 'group', code });
      say(words.joined);
      this.setData({ groupCode: '', groups: await service.groups() });
    });
  },

  async leave({ currentTarget }) {
    const { id: group, name } = currentTarget.dataset;
    if (!(await sure(texts.leaveSure(name)))) return;
    const path = { group, id: service.userId() };
    await attempt(async () => {
      await service.client.call('DELETE', '/v1/groups/{group}/members/{id}', { path });
      this.setData({ groups: await service.groups() });
    });
  },

  async erase() {
    if (!(await sure(words.eraseSure))) return;
    await attempt(async () => {
      await service.client.call('DELETE', '/v1/me', { body: { confirm: 'erase' } });
      service.forget();
      this.setData({ nickname: '', groups: [] });
      say(words.erased);
    });
  },

  onShareAppMessage({ target }) {
    const { name, code } = target?.dataset ?? {};
    return code
      ? card(texts.card(name), 'group', code)
      : card(texts.card(''), 'friend', this.friendCode);
  },
});
