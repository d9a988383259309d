const service = require('../../service.js');
const texts = require('../../texts.js');
const { attempt, card, label, rankingOf, say } = require('../../view.js');

const GROUP = 'group';

Page({
  data: {
    t: texts.words,
    welcome: false, // a first start: a nickname is needed
    problem: '',
    ended: false, // the ranking is not tried again by itself
    invitation: '',
    stepsProblem: '',
    denied: false,
    held: false,
    groups: [],
    group: '', // the id of the group that is shown; '' for friends
    loaded: false,
    rows: [],
    own: null,
    place: '',
  },

  onLoad() {
    label(texts.words.today);
    this.setData({ group: wx.getStorageSync(GROUP) });
  },

  onShow() {
    this.shown = true;
    this.follow();
    return this.prepare();
  },

  onHide() {
    this.shown = false;
    this.live.stop();
  },

  // follow polls the ranking that is chosen, until the page is hidden.
  follow() {
    this.live?.stop();
    if (!this.shown) return;
    const { group } = this.data;
    this.live = service.client.live({
      board: service.board,
      limit: 200,
      ...(group && { group }),
      onChange: ({ ranking, error }) => {
        if (group && error?.code === 'not_found') {
          this.show(''); // the user is no member any more
          return;
        }
        const ended = !!error?.permanent;
        this.setData({ problem: error ? texts.problem(error) : '', ended });
        if (ranking) this.setData({ loaded: true, ...rankingOf(ranking) });
        if (!error && this.unprepared) this.prepare();
      },
    });
  },

  // prepare does what a shown page needs once. After an error that may pass, the next ranking calls it again.
  async prepare() {
    if (this.preparing) return;
    this.preparing = true;
    this.unprepared = false;
    try {
      const [{ nickname }, groups, code] = await Promise.all([
        service.profile(),
        service.groups(),
        service.friendCode(),
      ]);
      this.friendCode = code;
      this.setData({ welcome: !nickname, groups });
      await this.showInvitation();
      if (nickname) await this.sendSteps();
    } catch (error) {
      this.unprepared = !error.permanent;
      this.setData({ problem: texts.problem(error), ended: !!error.permanent });
    } finally {
      this.preparing = false;
    }
  },

  retry() {
    this.setData({ problem: '', ended: false });
    this.follow();
    return this.prepare();
  },

  async register({ detail }) {
    const done = await attempt(() => service.rename(detail.value.nickname));
    if (!done) return;
    this.setData({ welcome: false });
    await this.sendAgain();
  },

  async sendSteps() {
    const what = await service.sendSteps();
    this.setData({
      stepsProblem: texts.stepsProblems[what] ?? '',
      denied: what === 'denied',
      held: what === 'held',
    });
    await this.live.refresh();
  },

  sendAgain() {
    return attempt(() => this.sendSteps());
  },

  async openSettings() {
    const { authSetting } = await service.ask('openSetting');
    if (authSetting['scope.werun']) await this.sendAgain();
  },

  async showInvitation() {
    const app = getApp();
    if (!app.invitation) return;
    try {
      const { name, group, settled } = await service.inviter(app.invitation);
      if (settled) app.invitation = null;
      this.setData({ invitation: settled ? '' : texts.invitation(name, group) });
    } catch (error) {
      if (!error.permanent) throw error;
      app.invitation = null;
      say(texts.problem(error));
    }
  },

  async accept() {
    const done = await attempt(async () => {
      const group = await service.join(getApp().invitation);
      this.setData({ groups: await service.groups() });
      this.show(group);
    });
    if (done) this.ignore();
  },

  ignore() {
    getApp().invitation = null;
    this.setData({ invitation: '' });
  },

  choose({ currentTarget }) {
    this.show(currentTarget.dataset.group);
  },

  show(group) {
    wx.setStorageSync(GROUP, group);
    this.setData({ group, loaded: false, rows: [], own: null });
    this.follow();
  },

  onShareAppMessage() {
    const group = this.data.groups.find(({ group_id: id }) => id === this.data.group);
    return group?.invite_code
      ? card(texts.card(group.name), 'group', group.invite_code)
      : card(texts.card(''), 'friend', this.friendCode);
  },
});
