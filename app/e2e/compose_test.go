package e2e_test

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"stepboard/config"
	"stepboard/internal/testenv"
)

// composeFile is the part of a compose file that the test reads.
type composeFile struct {
	Services map[string]struct {
		Build       string            `yaml:"build"`
		Image       string            `yaml:"image"`
		Command     any               `yaml:"command"`
		Environment map[string]string `yaml:"environment"`
		Healthcheck any               `yaml:"healthcheck"`
		DependsOn   map[string]any    `yaml:"depends_on"`
		ReadOnly    bool              `yaml:"read_only"`
		CapDrop     []string          `yaml:"cap_drop"`
		SecurityOpt []string          `yaml:"security_opt"`
		Volumes     []string          `yaml:"volumes"`
	} `yaml:"services"`
	Volumes map[string]any `yaml:"volumes"`
}

// required matches a variable that .env must set. Variables of any other form
// would have defaults.
var required = regexp.MustCompile(`\$\{([A-Z_]+):\?[^}]+\}`)

func compose(t testing.TB, file string) composeFile {
	t.Helper()
	text := string(testenv.Must(os.ReadFile("../../" + file)))
	text = required.ReplaceAllString(text, strings.Repeat("s", 40))
	if strings.Contains(strings.ReplaceAll(text, "$$", ""), "${") {
		t.Errorf("%s has a variable that need not be set", file)
	}
	var c composeFile
	if err := yaml.Unmarshal([]byte(text), &c); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return c
}

// The environment in the compose files is valid settings, and every service and
// volume that they name is defined.
func TestComposeFiles(t *testing.T) {
	t.Parallel()
	one, many := compose(t, "docker-compose.yml"), compose(t, "docker-compose.cluster.yml")
	check := func(name string, environment map[string]string, needs func(*config.Config) error) config.Config {
		env := make([]string, 0, len(environment))
		for key, value := range environment {
			env = append(env, key+"="+value)
		}
		cfg, err := config.Load(config.Sources{Env: env})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := needs(&cfg); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		return cfg
	}
	check("migrate", one.Services["migrate"].Environment, (*config.Config).RequireStores)
	check("stepboard", one.Services["stepboard"].Environment, (*config.Config).RequireServe)
	merged := maps.Clone(one.Services["stepboard"].Environment)
	maps.Copy(merged, many.Services["stepboard"].Environment)
	api := check("stepboard in a cluster", merged, (*config.Config).RequireServe)
	consumer := check("consumer", many.Services["consumer"].Environment, (*config.Config).RequireServe)
	if api.Redis.Mode != "cluster" || api.Ingest.Mode != "kafka" || api.Boards[0].Shards != 16 ||
		api.Ingest.Kafka.Topic != consumer.Ingest.Kafka.Topic || api.Boards[0] != consumer.Boards[0] {
		t.Errorf("the roles differ: %+v, %+v", api, consumer)
	}
	for _, c := range []composeFile{one, many} {
		for name, s := range c.Services {
			for other := range s.DependsOn {
				_, here := one.Services[other]
				if _, there := many.Services[other]; !here && !there {
					t.Errorf("%s depends on %s, which is not there", name, other)
				}
			}
			for _, v := range s.Volumes {
				if volume, _, _ := strings.Cut(v, ":"); !slices.Contains(slices.Collect(maps.Keys(c.Volumes)), volume) {
					t.Errorf("%s uses the volume %s, which is not there", name, volume)
				}
			}
			if strings.HasSuffix(s.Image, ":latest") || (s.Image != "" && !strings.Contains(s.Image, ":")) {
				t.Errorf("%s: %s names no version", name, s.Image)
			}
		}
	}
	example := string(testenv.Must(os.ReadFile("../../.env.example")))
	for _, file := range []string{"docker-compose.yml", "docker-compose.cluster.yml"} {
		for _, m := range required.FindAllStringSubmatch(string(testenv.Must(os.ReadFile("../../"+file))), -1) {
			if !strings.Contains(example, "\n"+m[1]+"=\n") {
				t.Errorf(".env.example does not name %s without a value", m[1])
			}
		}
	}
}

// Every container of Stepboard, the one that migrates included, runs without
// rights that it does not need.
func TestComposeLocksStepboardDown(t *testing.T) {
	t.Parallel()
	built := 0
	for _, file := range []string{"docker-compose.yml", "docker-compose.cluster.yml"} {
		for name, s := range compose(t, file).Services {
			if s.Build == "" {
				continue
			}
			built++
			if !s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) || !slices.Contains(s.SecurityOpt, "no-new-privileges:true") {
				t.Errorf("%s: %s may write to its image, keeps capabilities or may gain privileges", file, name)
			}
		}
	}
	if built < 3 {
		t.Errorf("only %d services are built from this repository", built)
	}
}
