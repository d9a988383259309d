package config_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stepboard/config"
)

const (
	webhookSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	webhookList   = "[{url: https://a.example/hook, secrets: [" + webhookSecret + "], events: [board.final]}, " +
		"{url: http://backend:80/hook, secrets: [" + webhookSecret + ", " + webhookSecret + "], private_network: true}]"
)

func TestWebhooks(t *testing.T) {
	t.Parallel()
	want := []config.Webhook{
		{URL: "https://a.example/hook", Secrets: []string{webhookSecret}, Events: []string{"board.final"}},
		{URL: "http://backend:80/hook", Secrets: []string{webhookSecret, webhookSecret}, PrivateNetwork: true},
	}
	for name, given := range map[string]given{
		"file":        {file: "webhooks: " + webhookList},
		"environment": {env: []string{"STEPBOARD_WEBHOOKS=" + webhookList}},
		"flag":        {flags: map[string]string{"webhooks": webhookList}},
	} {
		cfg, err := given.load(t)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(want, cfg.Webhooks); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		list, ok := cfg.Printable()["webhooks"].([]any)
		if !ok || len(list) != 2 {
			t.Fatalf("%s: printed as %v", name, cfg.Printable()["webhooks"])
		}
		shown := map[string]any{
			"url": "http://backend:80/hook", "secrets": []string{"********", "********"}, "events": []string{}, "private_network": true,
		}
		if diff := cmp.Diff(shown, list[1]); diff != "" {
			t.Errorf("%s is printed as (-want +got):\n%s", name, diff)
		}
	}
}

func TestWrongWebhooks(t *testing.T) {
	t.Parallel()
	const secrets = ", secrets: [" + webhookSecret + "]"
	for list, want := range map[string]string{
		"nonsense":                                                                     "webhooks: must be a list",
		"'[{url: hunter22'":                                                            "webhooks: not a YAML list",
		"[{url: a.example" + secrets + "}]":                                            "webhooks[0].url: must be an http or https address",
		"[{url: ftp://a.example" + secrets + "}]":                                      "webhooks[0].url: must be an http or https address",
		"[{url: 'https://u:hunter22@a'" + secrets + "}]":                               "webhooks[0].url: must have no user",
		"[{url: 'https://a/?key=hunter22'" + secrets + "}]":                            "webhooks[0].url: must have no user",
		"[{url: https://a}]":                                                           "webhooks[0].secrets: must have at least one",
		"[{url: https://a, secrets: [hunter22]}]":                                      "webhooks[0].secrets[0]: must be whsec_",
		"[{url: https://a, secrets: [whsec_aHVudGVyMjI=]}]":                            "webhooks[0].secrets[0]: must be whsec_",
		"[{url: https://a" + secrets + ", events: [board.lost]}]":                      "webhooks[0].events[0]: must be one of friend.requested",
		"[{url: https://a" + secrets + ", colour: red}]":                               "unknown setting: webhooks[0].colour",
		"[{url: https://a" + secrets + "}, {url: https://a" + secrets + "}]":           "webhooks: two of them have the same url",
		"[{url: https://a, secrets: [" + strings.Repeat(webhookSecret+", ", 3) + "]}]": "webhooks[0].secrets: must have at most 2",
	} {
		_, err := given{file: "webhooks: " + list}.load(t)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter22") {
			t.Errorf("%s: error %v, want %s", list, err, want)
		}
	}
}
