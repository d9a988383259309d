// Scenarios of people with the mini program, against the real service and a fake WeChat, which
// miniprogram_test.go starts.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, test } from 'node:test';
import { Phone } from './phone.mjs';
import { picture } from './picture.mjs';

const {
  SERVICE: service,
  WECHAT: wechat,
  APPID: appid,
  BOARD: board,
  REFUSED_TOKEN: refusedToken,
  CONTROL: control,
} = process.env;

const phones = [];
after(() => phones.forEach((phone) => phone.close()));

// day returns the begin of a day in China in seconds: 0 is today, 1 yesterday.
function day(back) {
  const hours = 8 * 3600;
  const now = Math.floor(Date.now() / 1000) + hours;
  return now - (now % 86400) - hours - back * 86400;
}

// someone returns a person with a phone, whom nobody else here knows.
function someone(...steps) {
  const phone = new Phone({ service, wechat, appid, board, person: randomUUID() });
  phone.days = steps.map((step, back) => ({ timestamp: day(back), step }));
  phones.push(phone);
  return phone;
}

// withName returns somebody who has begun: the steps are in the ranking.
async function withName(name, ...steps) {
  const phone = someone(...steps);
  await phone.launch();
  await phone.submit('开始', { nickname: name });
  await phone.until(steps[0].toLocaleString('en'));
  return phone;
}

// asked returns how many codes the service has exchanged at WeChat.
const asked = async () => Number(await (await fetch(control)).text());

const sessions = 'POST /v1/wechat/sessions';
const uploads = 'POST /v1/wechat/steps';

test('A first start asks for a nickname, then for the steps, and shows the ranking', async () => {
  const phone = someone(8421);
  await phone.launch();
  await phone.until('和好友比比步数');
  assert.ok(!phone.counts.getWeRunData, 'steps are read before the user knows why');
  await phone.submit('开始', { nickname: '' });
  assert.deepEqual(phone.toasts, ['这个名字不能用，请换一个。']);
  await phone.submit('开始', { nickname: '小明' });
  await phone.until('1 小 小明 8,421');
  await phone.until('第 1 名，共 1 人');
  await phone.until('现在只有你');
  assert.equal(phone.counts.login, 1);
  assert.equal(phone.counts[sessions], 1);
  assert.equal(phone.counts[uploads], 1);
  assert.deepEqual(phone.tabs, ['今天', '历史', '我']);

  phone.close();
  phone.days[0].step = 9000;
  await phone.launch();
  await phone.until('小明 9,000');
  assert.equal(phone.counts.login, 1, 'the token that is kept is valid');
});

test('English phones show English', async () => {
  const phone = someone(100);
  phone.language = 'en';
  await phone.launch();
  await phone.submit('Start', { nickname: 'Ann' });
  await phone.until('1 of 1');
  assert.doesNotMatch(phone.text(), /\p{Script=Han}/u);
  assert.deepEqual(phone.tabs, ['Today', 'History', 'Me']);
  await picture(phone, 'english');
  await phone.tab('Me');
  await phone.until('No groups yet');
  await picture(phone, 'english-me');
});

test('Who refuses the permission is told why there are no steps, and can grant it', async () => {
  const phone = someone(500);
  phone.answers.werun = false;
  await phone.launch();
  await phone.submit('开始', { nickname: '小红' });
  await phone.until('你没有允许读取微信运动步数');
  await phone.until('今天还没有步数');
  await phone.tap('去设置'); // and leaves it as it is
  assert.ok(phone.text().includes('你没有允许'));
  phone.answers.werun = true;
  await phone.tap('去设置');
  await phone.until('小红 500');
  assert.ok(!phone.text().includes('你没有允许'));
  assert.equal(phone.counts[uploads], 1);
});

test('Unusual steps are said to wait for somebody', async () => {
  const phone = someone(99500);
  await phone.launch();
  await phone.submit('开始', { nickname: '小飞' });
  await phone.until('今天的步数偏高');
  await phone.until('今天还没有步数');
  assert.ok(!phone.text().includes('重试'));
});

test('Who has not agreed to the privacy declaration can try again, as when WeChat gives no steps', async () => {
  const phone = someone(600);
  phone.failsWith = { message: 'privacy permission is not authorized', errno: 104 };
  await phone.launch();
  await phone.submit('开始', { nickname: '小兰' });
  await phone.until('同意《用户隐私保护指引》后');
  phone.failsWith = { message: 'internal error' };
  await phone.tap('重试');
  await phone.until('请确认已开启微信运动');
  phone.failsWith = undefined;
  await phone.tap('重试');
  await phone.until('小兰 600');
});

test('After another session key there is one login and one repetition', async () => {
  const phone = await withName('小刚', 700);
  const before = await asked();
  await phone.replaceKey();
  phone.days[0].step = 800;
  phone.hide();
  await phone.show();
  await phone.until('小刚 800');
  assert.equal(phone.counts.login, 2);
  assert.equal(await asked(), before + 1);
  assert.equal(phone.counts[uploads], 3);
});

test('Steps that can not be read after another login either are not tried in a loop', async () => {
  const phone = await withName('小芳', 900);
  const { login } = phone.counts;
  const before = await asked();
  const sent = phone.counts[uploads];
  phone.encryptsFor = 'wx-another';
  phone.hide();
  await phone.show();
  await phone.until('这次没能读取你的步数');
  assert.equal(phone.counts.login, login + 1);
  assert.equal(await asked(), before + 1);
  assert.equal(phone.counts[uploads], sent + 2);
  const polls = phone.counts[`GET /v1/boards/${board}/friends`];
  await phone.until(() => phone.counts[`GET /v1/boards/${board}/friends`] > polls + 1);
  assert.equal(phone.counts[uploads], sent + 2, 'polling tries again');
  phone.encryptsFor = undefined;
  await phone.tap('重试');
  await phone.until(() => !phone.text().includes('没能读取'));
});

test('Without a network the last ranking stays, and everything is made good when it is back', async () => {
  const phone = await withName('小强', 1000);
  phone.online = false;
  phone.days[0].step = 1100;
  phone.hide();
  await phone.show();
  await phone.until('没有网络');
  assert.ok(phone.text().includes('小强 1,000'));
  phone.online = true;
  await phone.until('小强 1,100');
  assert.ok(!phone.text().includes('没有网络'));

  const cold = someone(1200);
  cold.online = false;
  await cold.launch();
  await cold.until('没有网络');
  cold.online = true;
  await cold.until('和好友比比步数');
  await cold.submit('开始', { nickname: '小丽' });
  await cold.until('小丽 1,200');
});

test('A session that has ended, or is refused, is replaced by one login', async () => {
  const phone = await withName('小伟', 1300);
  const restart = async (change) => {
    phone.close();
    phone.store('session', { ...phone.stored('session'), ...change });
    await phone.launch();
    await phone.until('小伟 1,300');
  };
  await restart({ expires_at: new Date(Date.now() - 1000).toISOString() });
  assert.equal(phone.counts[sessions], 2);
  await restart({ token: refusedToken });
  assert.equal(phone.counts[sessions], 3);
  await restart({});
  assert.equal(phone.counts[sessions], 3);
});

test('What WeChat says of a login is said, and whether to try again', async (t) => {
  const answer = (errcode) => fetch(`${control}/?errcode=${errcode}`, { method: 'POST' });
  t.after(() => answer(''));
  for (const [errcode, text, again] of [
    [40226, '微信限制了这个账号', true],
    [40029, '登录没有成功', true],
    [45011, '请求太多', false],
    [40125, '服务暂时无法使用', false],
    [-1, '服务暂时无法使用', false],
  ]) {
    await answer(errcode);
    const phone = someone(10);
    await phone.launch();
    await phone.until(text);
    assert.equal(phone.text().includes('重试'), again, errcode);
    if (errcode !== 45011) {
      await answer('');
      if (again) await phone.tap('重试');
      await phone.until('和好友比比步数');
    }
    phone.close();
  }
});

test('A hidden page does not poll', async () => {
  const phone = await withName('小静', 1400);
  const polls = `GET /v1/boards/${board}/friends`;
  const before = phone.counts[polls];
  await phone.until(() => phone.counts[polls] > before + 1);
  phone.hide();
  const { [polls]: hidden } = phone.counts;
  await new Promise((resolve) => setTimeout(resolve, 500)); // longer than between some polls
  assert.equal(phone.counts[polls], hidden);
  await phone.show();
  await phone.until(() => phone.counts[polls] > hidden);
});

test('A card makes two people friends, who see each other', async () => {
  const host = await withName('阿杰', 6000);
  const card = host.share('邀请好友');
  assert.match(card.path, /^\/pages\/today\/today\?friend=\w+$/);
  const guest = someone(7000);
  await guest.launch(card.path);
  await guest.until('阿杰邀请你成为好友');
  await guest.submit('开始', { nickname: '阿珍' });
  await guest.tap('接受');
  await guest.until('1 阿 阿珍 7,000 2 阿 阿杰 6,000');
  await host.until('1 阿 阿珍 7,000 2 阿 阿杰 6,000');
  await host.until('第 2 名，共 2 人');
  assert.deepEqual(host.textsOf('mine'), ['2 阿 阿杰 6,000']);
  assert.ok(!guest.text().includes('邀请'));

  guest.hide();
  await guest.show(card.path); // again
  assert.ok(!guest.text().includes('邀请你'));
  host.hide();
  await host.show(card.path); // one's own
  assert.ok(!host.text().includes('邀请你'));

  const other = await withName('阿强', 10);
  other.hide();
  await other.show(card.path); // while the program runs
  await other.until('阿杰邀请你成为好友');
  await other.tap('忽略');
  assert.ok(!other.text().includes('邀请你'));
  other.hide();
  await other.show();
  assert.ok(!other.text().includes('邀请你'), 'what was ignored comes back');
  other.hide();
  await other.show('/pages/today/today?friend=AAAAAAAAAAAAAAAA');
  assert.deepEqual(other.toasts, ['邀请已失效。']);
});

test('A group is made, shared, joined by card and by code, and left', async () => {
  const owner = await withName('大卫', 3000);
  await owner.tab('我');
  await owner.until('还没有群组');
  owner.type('群组名称', '周末徒步');
  await owner.tap('新建');
  await owner.until('周末徒步 1 人');
  assert.match(owner.share('邀请好友').path, /friend=\w+$/);
  const { title, path } = owner.share('邀请');
  assert.equal(title, '加入“周末徒步”，一起比步数');
  const [, code] = /\?group=(\w+)$/.exec(path);
  const member = await withName('小李', 2000);
  member.hide();
  await member.show(path);
  await member.until('大卫邀请你加入“周末徒步”');
  await member.tap('接受');
  await member.until('1 大 大卫 3,000 2 小 小李 2,000');

  const third = await withName('小周', 4000);
  await third.tab('我');
  third.type('邀请码', '不对');
  await third.tap('加入');
  assert.deepEqual(third.toasts, ['邀请已失效。']);
  third.type('邀请码', ` ${code} `);
  await third.tap('加入');
  await third.until('周末徒步 3 人');
  await third.tab('今天');
  await third.tap('周末徒步');
  await third.until('第 1 名，共 3 人');
  await third.tap('好友');
  await third.until('第 1 名，共 1 人');
  assert.match(third.share().path, /friend=/);
  await third.tap('周末徒步');
  assert.equal(third.share().path, path);

  await third.tab('我');
  third.answers.modal = false;
  await third.tap('退出');
  assert.ok(third.text().includes('周末徒步'));
  third.answers.modal = true;
  await third.tap('退出');
  await third.until('还没有群组');
  await third.tab('今天');
  await third.until('第 1 名，共 1 人'); // the group is not shown any more
});

test('The history has the days, and the ranking among friends of each', async () => {
  const phone = await withName('老王', 5000, 12345);
  const friend = await withName('老张', 100, 20000);
  friend.hide();
  await friend.show(phone.share().path);
  await friend.tap('接受');
  await phone.tab('历史');
  const [month, date] = [new Date((day(1) + 8 * 3600) * 1000)].flatMap((d) => [
    d.getUTCMonth() + 1,
    d.getUTCDate(),
  ]);
  await phone.until(`${month}月${date}日`);
  assert.ok(phone.text().includes('12,345'));
  await phone.tap(`${month}月${date}日`);
  await phone.until('第 2 名，共 2 人 1 老 老张 20,000 2 老 老王 12,345');
  await phone.tap(`${month}月${date}日`);
  assert.ok(!phone.text().includes('老张'));
  phone.online = false;
  phone.hide();
  await phone.show();
  await phone.until('没有网络');
  assert.ok(phone.text().includes('12,345'));
  phone.online = true;
  await phone.tap('重试');
  assert.ok(!phone.text().includes('没有网络'));
});

test('Names are changed, and everything is deleted', async () => {
  const phone = await withName('改名', 30);
  await phone.tab('我');
  await phone.until('还没有群组');
  await phone.submit('保存', { nickname: '新名' });
  assert.deepEqual(phone.toasts, ['已保存']);
  await phone.tab('今天');
  await phone.until('新名 30');
  await phone.tab('我');
  await phone.tap('删除我的数据');
  assert.equal(phone.toasts.at(-1), '正在删除你的数据');
  assert.equal(phone.stored('session'), undefined);
  phone.close();
  await phone.launch();
  await phone.until('和好友比比步数');
});

test('Every screen shows long names and large numbers', async () => {
  const phone = await withName('林小北', 8421, 12034, 3120, 9876, 15002, 700, 6040);
  await picture(phone, 'alone');
  const friends = [
    ['Maximilian Alexander von Hohenberg-Lichtenstein', 98765],
    ['👟 爱走路的小熊猫宝宝一家今天也要走一万步', 23456],
    ['陈晨', 12300],
    ['Zoë', 9001],
    ['阿福', 8400],
    ['王大锤', 20],
    ['李四', 0],
  ];
  const { path } = phone.share();
  for (const [name, ...steps] of friends) {
    const friend = await withName(name, ...steps);
    friend.hide();
    await friend.show(path);
    await friend.tap('接受');
    friend.close();
  }
  await phone.tab('我');
  for (const name of ['周末徒步', '北京市朝阳区互联网公司同事徒步健走俱乐部第三分部', '家人']) {
    phone.type('群组名称', name);
    await phone.tap('新建');
  }
  await picture(phone, 'me');
  await phone.tab('今天');
  await phone.until('8 李 李四 0');
  await phone.until('5 林 林小北 8,421');
  await picture(phone, 'today');
  await phone.tap('周末徒步');
  await phone.until('第 1 名，共 1 人');
  await picture(phone, 'group');
  await phone.tab('历史');
  await phone.until('15,002');
  await picture(phone, 'history');
  await phone.tap(phone.page.data.days[0].name);
  await phone.until('98,765');
  await picture(phone, 'day');
  await phone.tab('今天');
  await phone.tap('好友');
  await phone.until('98,765');
  phone.online = false;
  await phone.until('没有网络');
  await picture(phone, 'offline');

  const guest = someone(10);
  guest.answers.werun = false;
  await guest.launch(path);
  await guest.until('林小北邀请你');
  await picture(guest, 'welcome');
  await guest.submit('开始', { nickname: '小猫' });
  await guest.until('你没有允许');
  await picture(guest, 'invited');
});
