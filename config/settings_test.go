package config_test

import (
	"fmt"
	"maps"
	"net/url"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"

	"stepboard/config"
)

// printed returns the value of a key in the output of config print.
func printed(t testing.TB, cfg config.Config, section, key string) any {
	t.Helper()
	values, ok := cfg.Printable()[section].(map[string]any)
	if !ok {
		t.Fatalf("no section %s", section)
	}
	return values[key]
}

func TestPrintedSettings(t *testing.T) {
	t.Parallel()
	cfg := config.Default()
	cfg.Clock.Offset = -90 * time.Minute
	text, err := yaml.Marshal(cfg.Printable())
	if err != nil {
		t.Fatal(err)
	}
	again, err := given{file: string(text)}.load(t)
	if err != nil {
		t.Fatalf("what is printed can't be read: %v\n%s", err, text)
	}
	if diff := cmp.Diff(cfg, again); diff != "" {
		t.Errorf("-printed +read:\n%s", diff)
	}
	cfg.Auth.HS256Secret, cfg.Auth.HS256PreviousSecret, cfg.Redis.Password = "hunter22", "hunter22", "hunter22"
	cfg.Backup.SecretKey = "hunter22"
	cfg.WeChat.Apps = []config.WeChatApp{{AppID: "wx1", Secret: "hunter22", Board: "steps"}}
	if text := fmt.Sprint(cfg.Printable()["wechat"]); strings.Contains(text, "hunter22") || !strings.Contains(text, "wx1") {
		t.Errorf("the mini programs are printed as %s", text)
	}
	for _, secret := range [][2]string{{"auth", "hs256_secret"}, {"auth", "hs256_previous_secret"}, {"redis", "password"}, {"backup", "secret_key"}} {
		if got := printed(t, cfg, secret[0], secret[1]); got != "********" {
			t.Errorf("%v is printed as %v", secret, got)
		}
	}
}

func TestAnAddressOfKeysIsPrintedWithoutSecrets(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"":                             "",
		"https://login.example/keys":   "https://login.example/keys",
		"https://a:hunter22@b.example": "********",
		"https://login.example/keys?tenant=a&key=hunter22": "https://login.example/keys?key=xxxxx&tenant=xxxxx",
	} {
		cfg := config.Default()
		cfg.Auth.JWKSURL = address
		if got := printed(t, cfg, "auth", "jwks_url"); got != want {
			t.Errorf("%s is printed as %v, want %s", address, got, want)
		}
	}
}

func TestADSNIsPrintedWithoutItsPassword(t *testing.T) {
	t.Parallel()
	tests := []struct{ dsn, want string }{
		{"", ""},
		{"postgres://u@db/stepboard", "postgres://u@db/stepboard"},
		{"postgres://u:hunter22@db:5432/stepboard?sslmode=disable", "postgres://u:xxxxx@db:5432/stepboard?sslmode=disable"},
		{"postgresql://u:hunter22@db/stepboard", "postgresql://u:xxxxx@db/stepboard"},
		{"postgres:///stepboard?host=/run&user=u&password=hunter22", "postgres:///stepboard?host=%2Frun&password=xxxxx&user=u"},
		{"postgres://u:hunter22@db/stepboard?password=hunter22&sslpassword=hunter22", "postgres://u:xxxxx@db/stepboard?password=xxxxx&sslpassword=xxxxx"},
		{"postgres://db/stepboard?password=a;b=hunter22", "postgres://db/stepboard"},
		{"postgres://u:12/hunter22@db/stepboard", "********"},
		{"postgres://u:12#hunter22@db/stepboard", "********"},
		{"postgres://u:12?hunter22@db/stepboard", "********"},
		{"postgres://u:%zzhunter22@db/stepboard", "********"},
		{"u:hunter22@db/stepboard", "********"},
		{"hunter22", "********"},
		{"host=db user=u dbname=stepboard", "host=db user=u dbname=stepboard"},
		{"host=db password=hunter22 user=u", "host=db password=******** user=u"},
		{"host=db password = hunter22", "host=db password = ********"},
		{"password='a hunter22' host=db", "password=******** host=db"},
		{`password='a \' hunter22' host=db`, "password=******** host=db"},
		{`password=a\ hunter22 host=db`, "password=******** host=db"},
		{"password=a'hunter22 host=db", "password=******** host=db"},
		{"host=db sslpassword=hunter22", "host=db sslpassword=********"},
		{"user='x password=' password='a hunter22'", "user='x password=' password=********"},
		{"host=db password=", "host=db password=********"},
		{"host=db password='hunter22", "********"},
		{"host=db password=a hunter22", "********"},
		{"host=db pasword=hunter22", "host=db pasword=********"},
		{"host=db Password=hunter22", "********"},
		{"postgres://u@db/stepboard?pasword=hunter22", "postgres://u@db/stepboard?pasword=xxxxx"},
		{"postgre://u:hunter22@db/stepboard?sslmode=disable", "********"},
		{"host=db\npassword=hunter22\n", "host=db\npassword=********\n"},
	}
	for _, tt := range tests {
		t.Run(tt.dsn, func(t *testing.T) {
			t.Parallel()
			cfg := config.Default()
			cfg.Postgres.DSN = tt.dsn
			if got := printed(t, cfg, "postgres", "dsn"); got != tt.want {
				t.Errorf("printed as %v, want %s", got, tt.want)
			}
		})
	}
}

// A password is not printed, whatever surrounds it and whether or not the DSN is well
// formed.
func TestNoPasswordOfADSNIsPrinted(t *testing.T) {
	t.Parallel()
	around := rapid.StringOfN(rapid.RuneFrom([]rune(`ab1'"\=@:/?#%&;[]`)), 0, 5, -1)
	rapid.Check(t, func(t *rapid.T) {
		password := around.Draw(t, "before") + "hunter22" + around.Draw(t, "after")
		quoted := "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(password) + "'"
		cfg := config.Default()
		cfg.Postgres.DSN = rapid.SampledFrom([]string{
			"postgres://" + url.UserPassword("u", password).String() + "@db/d",
			"postgres://u:" + password + "@db/d",
			"postgres://db/d?password=" + url.QueryEscape(password),
			"host=db password=" + quoted + " user=u",
			"host=db user=u password=" + password,
		}).Draw(t, "dsn")
		if got := fmt.Sprint(cfg.Printable()); strings.Contains(got, "hunter22") {
			t.Fatalf("%s is printed as %s", cfg.Postgres.DSN, got)
		}
	})
}

const exampleFile = "../stepboard.example.yaml"

func TestTheExampleIsTheDefaults(t *testing.T) {
	t.Parallel()
	cfg, err := config.Load(config.Sources{File: exampleFile})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(config.Default(), cfg); diff != "" {
		t.Errorf("the example differs from the defaults (-default +example):\n%s", diff)
	}
}

// commentedOut matches a setting of the example that has no default.
var commentedOut = regexp.MustCompile(`(?m)^( *)#([a-z]|- |  )`)

// example returns the example file with every setting uncommented.
func example(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile(exampleFile)
	if err != nil {
		t.Fatal(err)
	}
	return commentedOut.ReplaceAllString(string(text), "$1$2")
}

// leaf is a field of the settings that holds a value.
type leaf struct{ key, doc string }

func leaves(prefix string, structType reflect.Type) []leaf {
	var list []leaf
	for f := range structType.Fields() {
		key := prefix + f.Tag.Get("koanf")
		switch {
		case f.Type.Kind() == reflect.Struct && f.Type != reflect.TypeFor[time.Time]():
			list = append(list, leaves(key+".", f.Type)...)
			continue
		case f.Type.Kind() == reflect.Slice && f.Type.Elem().Kind() == reflect.Struct:
			list = append(list, leaves(key+".0.", f.Type.Elem())...)
		}
		list = append(list, leaf{key, f.Tag.Get("doc")})
	}
	return list
}

func TestEverySettingIsDocumented(t *testing.T) {
	t.Parallel()
	var inForce any
	if err := yaml.Unmarshal([]byte(example(t)), &inForce); err != nil {
		t.Fatal(err)
	}
	listed := make(map[string]bool)
	for _, s := range config.Settings() {
		listed[s.Key] = true
	}
	for _, l := range leaves("", reflect.TypeFor[config.Config]()) {
		if l.doc == "" {
			t.Errorf("%s has no doc", l.key)
		}
		item := strings.HasPrefix(l.key, "boards.") || strings.HasPrefix(l.key, "webhooks.") || strings.HasPrefix(l.key, "wechat.apps.") || strings.HasPrefix(l.key, "sign_in.oidc.")
		if !item && !listed[l.key] {
			t.Errorf("%s is not in Settings()", l.key)
		}
		delete(listed, l.key)
		at := inForce
		for part := range strings.SplitSeq(l.key, ".") {
			switch v := at.(type) {
			case map[string]any:
				at = v[part]
			case []any:
				all := make(map[string]any)
				for _, item := range v {
					maps.Copy(all, item.(map[string]any))
				}
				at = all
			default:
				at = nil
			}
		}
		if at == nil {
			t.Errorf("%s is not in %s", l.key, exampleFile)
		}
	}
	if len(listed) > 0 {
		t.Errorf("listed, but no settings: %v", listed)
	}
}

// A secret that everybody can read in the example must not reach production.
func TestTheExamplesSecretIsRefused(t *testing.T) {
	t.Parallel()
	_, err := given{file: example(t), flags: map[string]string{"redis.mode": "sentinel"}}.load(t)
	want := "auth.hs256_secret: must have at least 32 bytes\nauth.hs256_previous_secret: must have at least 32 bytes\n" +
		"webhooks[0].secrets[0]: must be whsec_ and 24 to 64 bytes in base64"
	if err == nil || err.Error() != want {
		t.Fatalf("error %v", err)
	}
	good := strings.Repeat("s", 32)
	cfg, err := given{file: example(t), flags: map[string]string{
		"redis.mode": "sentinel", "auth.hs256_secret": good, "auth.hs256_previous_secret": good, "webhooks": webhookList,
	}}.load(t)
	if err != nil {
		t.Fatal(err)
	}
	if err := cfg.RequireServe(); err != nil {
		t.Error(err)
	}
}

func TestListedSettings(t *testing.T) {
	t.Parallel()
	found := make(map[string]config.Setting)
	for _, s := range config.Settings() {
		if _, twice := found[s.Env()]; twice {
			t.Errorf("%s is listed twice", s.Env())
		}
		found[s.Env()] = s
	}
	tests := []struct{ env, key, value string }{
		{"STEPBOARD_HTTP__ADDR", "http.addr", "127.0.0.1:8080"},
		{"STEPBOARD_REDIS__ADDRS", "redis.addrs", "127.0.0.1:6379"},
		{"STEPBOARD_AUTH__HS256_SECRET", "auth.hs256_secret", ""},
		{"STEPBOARD_BOARDS", "boards", "one board, steps"},
		{"STEPBOARD_HOT_DAYS", "hot_days", "3"},
		{"STEPBOARD_CLOCK__OFFSET", "clock.offset", "0s"},
	}
	for _, tt := range tests {
		if s := found[tt.env]; s.Key != tt.key || s.Default != tt.value {
			t.Errorf("%s is %s with default %q, want %s with %q", tt.env, s.Key, s.Default, tt.key, tt.value)
		}
	}
}

// Every file is either refused or understood: the printed settings can be read again
// and are the same.
func FuzzLoad(f *testing.F) {
	for _, text := range []string{
		"hot_days: 5", "boards: [{name: a, max_score: 5}]", "boards: [{1: a}]", "1: 2", "http: {1: 2}", "? [a]\n: b",
		"redis: &r {addrs: ['a:1']}", "http: {<<: {addr: ':1'}}", "clock: {offset: 1h}", "http.addr: ':1'", "? {a: b}\n: c",
		"traces: {endpoint: 'http://a:4318', ratio: 1e-3}",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		cfg, err := given{file: text}.load(t)
		if err != nil {
			return
		}
		cfg.Auth.HS256Secret, cfg.Redis.Password, cfg.Postgres.DSN = "", "", ""
		printed, err := yaml.Marshal(cfg.Printable())
		if err != nil {
			t.Fatal(err)
		}
		again, err := given{file: string(printed)}.load(t)
		if err != nil {
			t.Fatalf("%v\n%s", err, printed)
		}
		if diff := cmp.Diff(cfg, again); diff != "" {
			t.Errorf("-printed +read:\n%s", diff)
		}
	})
}

func TestSizes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"64 MB": "64 MB", "64mb": "64 MB", "2000 MB": "2 GB", "1500 KB": "1500 KB", "1 GB": "1 GB"} {
		cfg, err := config.Load(config.Sources{File: "/dev/null", Flags: map[string]string{"directory.memory": text}})
		if err != nil || cfg.Directory.Memory.String() != want {
			t.Errorf("%q is %v, %v, want %s", text, cfg.Directory.Memory, err, want)
		}
	}
	for _, text := range []string{"", "64", "64 M", "64 MiB", "-1 MB", "1.5 GB", "MB", "99999999999 GB", "500 KB"} {
		if cfg, err := config.Load(config.Sources{File: "/dev/null", Flags: map[string]string{"directory.memory": text}}); err == nil {
			t.Errorf("%q is %v", text, cfg.Directory.Memory)
		}
	}
}
