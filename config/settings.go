package config

import (
	"fmt"
	"net"
	"net/url"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/go-playground/validator/v10"
)

// Setting is one key, for help texts and tables.
type Setting struct {
	// Key is the path in the file: http.addr.
	Key string
	// Default is the default value as text; empty for none.
	Default string
	// Doc says what it does.
	Doc string
}

// Env is the setting's environment variable.
func (s Setting) Env() string {
	return EnvPrefix + strings.ToUpper(strings.ReplaceAll(s.Key, ".", "__"))
}

// Settings lists every key, in the order of the struct.
func Settings() []Setting {
	return settings("", reflect.ValueOf(Default()))
}

func settings(prefix string, v reflect.Value) []Setting {
	var list []Setting
	for i := range v.NumField() {
		f := v.Type().Field(i)
		key := prefix + f.Tag.Get("koanf")
		if f.Type.Kind() == reflect.Struct {
			list = append(list, settings(key+".", v.Field(i))...)
			continue
		}
		text := fmt.Sprint(plain(v.Field(i)))
		if key == "boards" {
			text = "one board, steps"
		}
		list = append(list, Setting{Key: key, Default: strings.Trim(text, "[]"), Doc: f.Tag.Get("doc")})
	}
	return list
}

// Printable is the settings as nested maps, with secrets hidden.
func (c *Config) Printable() map[string]any { return structMap(reflect.ValueOf(*c)) }

func structMap(v reflect.Value) map[string]any {
	m := make(map[string]any, v.NumField())
	for i := range v.NumField() {
		f := v.Type().Field(i)
		value := plain(v.Field(i))
		if text, ok := value.(string); ok && text != "" {
			value = hide(text, f.Tag.Get("secret"))
		}
		m[f.Tag.Get("koanf")] = value
	}
	return m
}

// plain turns a field into what YAML prints well.
func plain(v reflect.Value) any {
	switch value := v.Interface().(type) {
	case time.Duration:
		return value.String()
	case []Board:
		list := make([]any, len(value))
		for i := range value {
			list[i] = structMap(reflect.ValueOf(value[i]))
		}
		return list
	default:
		if v.Kind() == reflect.Struct {
			return structMap(v)
		}
		return value
	}
}

const hidden = "********"

// dsnPassword finds the password in a DSN of keywords.
var dsnPassword = regexp.MustCompile(`(password\s*=\s*)('(?:[^'\\]|\\.)*'|\S+)`)

func hide(text, secret string) string {
	switch secret {
	case "":
		return text
	case "dsn":
		u, err := url.Parse(text)
		if err != nil {
			return hidden
		}
		if u.Scheme == "" {
			return dsnPassword.ReplaceAllString(text, "${1}"+hidden)
		}
		if _, has := u.User.Password(); has {
			u.User = url.UserPassword(u.User.Username(), hidden)
		}
		if q := u.Query(); q.Has("password") {
			q.Set("password", hidden)
			u.RawQuery = q.Encode()
		}
		return u.String()
	default:
		return hidden
	}
}

// isHostPort accepts host:port with an empty host and a port of 0.
func isHostPort(fl validator.FieldLevel) bool {
	_, port, err := net.SplitHostPort(fl.Field().String())
	if err != nil {
		return false
	}
	n, err := strconv.Atoi(port)
	return err == nil && n >= 0 && n <= 65535
}

// explain says in a sentence what is wrong with a setting.
func explain(f validator.FieldError) string {
	_, key, _ := strings.Cut(f.Namespace(), ".")
	switch f.Tag() {
	case "required":
		return key + ": must be set"
	case "oneof":
		return fmt.Sprintf("%s: must be one of %s, not %q", key, strings.ReplaceAll(f.Param(), " ", ", "), fmt.Sprint(f.Value()))
	case "min", "max":
		return fmt.Sprintf("%s: %s", key, explainBound(f))
	case "len":
		return fmt.Sprintf("%s: must be a list of %s", key, f.Param())
	case "hostport":
		return fmt.Sprintf("%s: must be host:port, not %q", key, f.Value())
	case "http_url":
		return fmt.Sprintf("%s: must be an http or https address, not %q", key, f.Value())
	case "unique":
		return key + ": two of them have the same name"
	default:
		return fmt.Sprintf("%s: does not satisfy %s", key, f.Tag())
	}
}

func explainBound(f validator.FieldError) string {
	word := map[string]string{"min": "at least", "max": "at most"}[f.Tag()]
	switch f.Kind() {
	case reflect.String:
		return fmt.Sprintf("must have %s %s bytes", word, f.Param())
	case reflect.Slice:
		return fmt.Sprintf("must have %s %s of them", word, f.Param())
	default:
		return fmt.Sprintf("must be %s %s, not %v", word, f.Param(), f.Value())
	}
}
