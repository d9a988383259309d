package config_test

import (
	"strings"
	"testing"
	"time"

	"stepboard/config"
)

func TestWarnings(t *testing.T) {
	t.Parallel()
	const random = "0f8fad5b2d9c4e7a91b36c5d7e80a4f2"
	for _, tt := range []struct {
		name   string
		change func(*config.Config)
		want   string // what the only warning begins with; "" for none
	}{
		{"the defaults", func(*config.Config) {}, ""},
		{"the defaults on every address", func(c *config.Config) { c.HTTP.Addr = ":8080" }, ""},
		{"no limits on this machine", func(c *config.Config) { c.Limits = config.Limits{} }, ""},
		{"no limits on localhost", func(c *config.Config) { c.HTTP.Addr, c.Limits = "localhost:80", config.Limits{} }, ""},
		{"no limits on IPv6's own", func(c *config.Config) { c.HTTP.Addr, c.Limits = "[::1]:80", config.Limits{} }, ""},
		{"no limit of users", func(c *config.Config) { c.HTTP.Addr, c.Limits.UserPerMinute = ":80", 0 }, "limits.user_per_minute is 0"},
		{"no limit of addresses", func(c *config.Config) { c.HTTP.Addr, c.Limits.AddressPerMinute = "10.0.0.1:80", 0 }, "limits.address_per_minute is 0"},
		{"proxies", func(c *config.Config) { c.HTTP.TrustedProxies = []string{"10.0.0.0/8", "::1"} }, ""},
		{"everybody as a proxy", func(c *config.Config) { c.HTTP.TrustedProxies = []string{"10.0.0.0/8", "0.0.0.0/0"} }, "http.trusted_proxies has 0.0.0.0/0"},
		{"everybody as a proxy, in IPv6", func(c *config.Config) { c.HTTP.TrustedProxies = []string{"::/0"} }, "http.trusted_proxies has ::/0"},
		{"rankings from memory", func(c *config.Config) { c.Rankings.MaxStaleness = time.Second }, ""},
		{"no change stream", func(c *config.Config) {
			c.Rankings.MaxStaleness, c.Boards[0].ChangeStream = time.Second, false
		}, "rankings.max_staleness is set"},
		{"a webhook to this machine", func(c *config.Config) { c.Webhooks = []config.Webhook{{URL: "https://127.0.0.1:9/hook"}} }, "webhooks has https://127.0.0.1:9/hook, which is not a public address"},
		{"a webhook to this machine, which is permitted", func(c *config.Config) {
			c.Webhooks = []config.Webhook{{URL: "http://127.0.0.1:9/hook", PrivateNetwork: true}}
		}, ""},
		{"a JWKS", func(c *config.Config) { c.Auth.JWKSURL, c.Auth.Audience = "https://a.example/keys", "steps" }, ""},
		{"a JWKS without an audience", func(c *config.Config) { c.Auth.JWKSURL = "https://a.example/keys" }, "auth.audience is empty"},
		{"copies over http", func(c *config.Config) { c.Backup.Endpoint = "http://minio.example:9000" }, "backup.endpoint is not https"},
		{"a mini program", func(c *config.Config) {
			c.WeChat.Apps, c.Boards[0].Uploads = []config.WeChatApp{{AppID: "wx0123456789abcdef", Board: "steps"}}, "service"
		}, ""},
		{"a mini program beside any total", func(c *config.Config) {
			c.WeChat.Apps = []config.WeChatApp{{AppID: "wx0123456789abcdef", Board: "steps"}}
		}, "board steps takes steps of WeChat"},
		{"WeChat over http", func(c *config.Config) {
			c.WeChat.Apps, c.WeChat.APIURL, c.Boards[0].Uploads = []config.WeChatApp{{AppID: "wx0123456789abcdef", Board: "steps"}}, "http://wechat.example", "service"
		}, "wechat.api_url is not https"},
		{"another AppID than WeChat's", func(c *config.Config) {
			c.WeChat.Apps, c.Boards[0].Uploads = []config.WeChatApp{{AppID: "wx1", Board: "steps"}}, "service"
		}, "wechat.apps has the appid wx1"},
		{"a JWKS over http", func(c *config.Config) { c.Auth.JWKSURL, c.Auth.Audience = "HTTP://a.example/keys", "steps" }, "auth.jwks_url is not https"},
		{"a webhook", func(c *config.Config) { c.Webhooks = []config.Webhook{{URL: "https://a.example/hook"}} }, ""},
		{"a webhook over http", func(c *config.Config) {
			c.Webhooks = []config.Webhook{{URL: "HTTP://a.example/hook"}}
		}, "webhooks has HTTP://a.example/hook, which is not https"},
		{"a webhook over http on a private network", func(c *config.Config) {
			c.Webhooks = []config.Webhook{{URL: "http://backend/hook", PrivateNetwork: true}}
		}, ""},
		{"digests for nobody", func(c *config.Config) { c.Jobs.DigestCron = "0 20 * * *" }, "jobs.digest_cron is set, but"},
		{"digests for browsers", func(c *config.Config) { c.Jobs.DigestCron, c.Push.Subject = "0 20 * * *", "mailto:a@a.example" }, ""},
		{"a private push service", func(c *config.Config) {
			c.HTTP.Addr, c.Push = ":80", config.Push{Subject: "mailto:a@a.example", PrivateNetwork: true}
		}, "push.private_network is set"},
		{"a random secret", func(c *config.Config) { c.Auth.HS256Secret = random }, ""},
		{"one letter", func(c *config.Config) { c.Auth.HS256Secret = strings.Repeat("s", 64) }, "auth.hs256_secret is easy to guess"},
		{"a word again and again", func(c *config.Config) { c.Auth.HS256Secret = strings.Repeat("password", 8) }, "auth.hs256_secret is easy to guess"},
		{"the digits again and again", func(c *config.Config) { c.Auth.HS256Secret = strings.Repeat("0123456789abcdef", 4) }, "auth.hs256_secret is easy to guess"},
		{"a weak previous secret", func(c *config.Config) {
			c.Auth.HS256Secret, c.Auth.HS256PreviousSecret = random, strings.Repeat("change-me", 4)
		}, "auth.hs256_previous_secret is easy to guess"},
	} {
		cfg := config.Default()
		tt.change(&cfg)
		got := cfg.Warnings()
		switch {
		case tt.want == "" && len(got) > 0:
			t.Errorf("%s: %q", tt.name, got)
		case tt.want != "" && (len(got) != 1 || !strings.HasPrefix(got[0], tt.want)):
			t.Errorf("%s: %q, want %s…", tt.name, got, tt.want)
		}
	}
}
