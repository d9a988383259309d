// Program kubernetes checks objects of a rendered chart, which it reads as YAML from standard input:
// each is decoded strictly into its type, and everything that one names must be among them. What hooks
// name must be there before everything else.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/yaml"
	strict "sigs.k8s.io/yaml"
)

func main() {
	c := checker{named: make(map[string]int)}
	if err := c.read(os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	c.check()
	for _, problem := range c.problems {
		fmt.Fprintln(os.Stderr, problem)
	}
	if len(c.problems) > 0 {
		os.Exit(1)
	}
	fmt.Printf("%d objects\n", len(c.objects))
}

// object is a decoded object, and name its kind and name.
type object struct {
	name string
	meta.Object
}

// pods are what an object makes: their labels and their specification.
type pods struct {
	object
	hook     bool
	labels   labels.Set
	selector *meta.LabelSelector // nil for a Job
	spec     core.PodSpec
}

type checker struct {
	objects  []object
	named    map[string]int // the weight of hooks; of all others lastWeight
	pods     []pods
	problems []string
}

// lastWeight is greater than that of each hook.
const lastWeight = 1 << 20

func (c *checker) fail(of string, format string, args ...any) {
	c.problems = append(c.problems, of+": "+fmt.Sprintf(format, args...))
}

// kinds returns an empty object of each known kind.
var kinds = map[string]func() meta.Object{
	"v1/Secret":                               func() meta.Object { return &core.Secret{} },
	"v1/Service":                              func() meta.Object { return &core.Service{} },
	"v1/ServiceAccount":                       func() meta.Object { return &core.ServiceAccount{} },
	"apps/v1/Deployment":                      func() meta.Object { return &apps.Deployment{} },
	"apps/v1/StatefulSet":                     func() meta.Object { return &apps.StatefulSet{} },
	"batch/v1/Job":                            func() meta.Object { return &batch.Job{} },
	"policy/v1/PodDisruptionBudget":           func() meta.Object { return &policy.PodDisruptionBudget{} },
	"autoscaling/v2/HorizontalPodAutoscaler":  func() meta.Object { return &autoscaling.HorizontalPodAutoscaler{} },
	"networking.k8s.io/v1/Ingress":            func() meta.Object { return &networking.Ingress{} },
	"networking.k8s.io/v1/NetworkPolicy":      func() meta.Object { return &networking.NetworkPolicy{} },
	"monitoring.coreos.com/v1/ServiceMonitor": func() meta.Object { return &monitoring.ServiceMonitor{} },
}

// read decodes all objects.
func (c *checker) read(r io.Reader) error {
	documents := yaml.NewYAMLReader(bufio.NewReader(r))
	for {
		text, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var kind meta.TypeMeta
		if err := strict.Unmarshal(text, &kind); err != nil {
			return fmt.Errorf("%w:\n%s", err, text)
		}
		if kind.Kind == "" { // comments alone
			continue
		}
		empty, ok := kinds[kind.APIVersion+"/"+kind.Kind]
		if !ok {
			return fmt.Errorf("%s %s is unknown", kind.APIVersion, kind.Kind)
		}
		o := object{Object: empty()}
		if err := strict.UnmarshalStrict(text, o.Object); err != nil {
			return fmt.Errorf("%w:\n%s", err, text)
		}
		o.name = kind.Kind + "/" + o.GetName()
		if _, ok := c.named[o.name]; ok {
			c.fail(o.name, "is there twice")
		}
		c.add(o)
	}
}

func (c *checker) add(o object) {
	hook, weight := o.GetAnnotations()["helm.sh/hook"] != "", lastWeight
	if hook {
		weight, _ = strconv.Atoi(o.GetAnnotations()["helm.sh/hook-weight"])
	}
	c.objects, c.named[o.name] = append(c.objects, o), weight
	p := pods{object: o, hook: hook}
	switch of := o.Object.(type) {
	case *apps.Deployment:
		p.labels, p.selector, p.spec = of.Spec.Template.Labels, of.Spec.Selector, of.Spec.Template.Spec
	case *apps.StatefulSet:
		p.labels, p.selector, p.spec = of.Spec.Template.Labels, of.Spec.Selector, of.Spec.Template.Spec
		for _, claim := range of.Spec.VolumeClaimTemplates {
			p.spec.Volumes = append(p.spec.Volumes, core.Volume{Name: claim.Name})
		}
	case *batch.Job:
		p.labels, p.spec = of.Spec.Template.Labels, of.Spec.Template.Spec
	default:
		return
	}
	c.pods = append(c.pods, p)
}

// exists expects that something which an object names is there before it.
func (c *checker) exists(o object, name string) {
	weight, ok := c.named[name]
	if own := c.named[o.name]; !ok {
		c.fail(o.name, "names %s, which is not there", name)
	} else if own != lastWeight && weight >= own {
		c.fail(o.name, "is a hook and names %s, which is made later", name)
	}
}

// selects expects that a selector matches the labels of pods, and that these listen on the ports.
func (c *checker) selects(o object, selector labels.Selector, ports ...intstr.IntOrString) {
	found := false
	for _, p := range c.pods {
		if !selector.Matches(p.labels) {
			continue
		}
		found = true
		for _, port := range ports {
			if !slices.ContainsFunc(p.spec.Containers[0].Ports, func(of core.ContainerPort) bool {
				return of.Name == port.StrVal && port.Type == intstr.String || of.ContainerPort == port.IntVal
			}) {
				c.fail(o.name, "selects %s, which does not listen on %s", p.name, port.String())
			}
		}
	}
	if !found {
		c.fail(o.name, "selects no pods")
	}
}

func (c *checker) check() {
	for _, p := range c.pods {
		c.checkPods(p)
	}
	for _, o := range c.objects {
		switch of := o.Object.(type) {
		case *core.Service:
			var ports []intstr.IntOrString
			for _, port := range of.Spec.Ports {
				ports = append(ports, port.TargetPort)
			}
			c.selects(o, labels.SelectorFromSet(of.Spec.Selector), ports...)
		case *apps.StatefulSet:
			c.exists(o, "Service/"+of.Spec.ServiceName)
		case *policy.PodDisruptionBudget:
			c.selects(o, c.selector(o, of.Spec.Selector))
		case *networking.NetworkPolicy:
			for _, rule := range of.Spec.Ingress {
				for _, port := range rule.Ports {
					c.selects(o, c.selector(o, &of.Spec.PodSelector), *port.Port)
				}
			}
		case *autoscaling.HorizontalPodAutoscaler:
			c.exists(o, of.Spec.ScaleTargetRef.Kind+"/"+of.Spec.ScaleTargetRef.Name)
			if least := of.Spec.MinReplicas; least != nil && *least > of.Spec.MaxReplicas {
				c.fail(o.name, "has %d replicas at least and %d at most", *least, of.Spec.MaxReplicas)
			}
		case *networking.Ingress:
			for _, rule := range of.Spec.Rules {
				for _, path := range rule.HTTP.Paths {
					c.exists(o, "Service/"+path.Backend.Service.Name)
				}
			}
		case *monitoring.ServiceMonitor:
			selector := c.selector(o, &of.Spec.Selector)
			if !slices.ContainsFunc(c.objects, func(other object) bool {
				_, service := other.Object.(*core.Service)
				return service && selector.Matches(labels.Set(other.GetLabels()))
			}) {
				c.fail(o.name, "selects no Service")
			}
		}
	}
}

func (c *checker) selector(o object, of *meta.LabelSelector) labels.Selector {
	selector, err := meta.LabelSelectorAsSelector(of)
	if err != nil {
		c.fail(o.name, "%v", err)
	}
	return selector
}

func (c *checker) checkPods(p pods) {
	if p.selector != nil && !c.selector(p.object, p.selector).Matches(p.labels) {
		c.fail(p.name, "does not select its own pods")
	}
	if name := p.spec.ServiceAccountName; name != "" && name != "default" {
		c.exists(p.object, "ServiceAccount/"+name)
	}
	volumes := make(map[string]bool)
	for _, v := range p.spec.Volumes {
		volumes[v.Name] = true
		if v.Secret != nil && !strings.HasPrefix(v.Secret.SecretName, "existing-") {
			c.exists(p.object, "Secret/"+v.Secret.SecretName)
		}
	}
	for _, container := range p.spec.Containers {
		for _, m := range container.VolumeMounts {
			if !volumes[m.Name] {
				c.fail(p.name, "mounts %s, and has %v", m.Name, slices.Collect(maps.Keys(volumes)))
			}
		}
		for _, probe := range []*core.Probe{container.StartupProbe, container.LivenessProbe, container.ReadinessProbe} {
			if probe != nil && !slices.ContainsFunc(container.Ports, func(of core.ContainerPort) bool { return of.Name == probe.HTTPGet.Port.StrVal }) {
				text, _ := json.Marshal(probe)
				c.fail(p.name, "has no port for the probe %s", text)
			}
		}
		if s := container.SecurityContext; s == nil || s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem {
			c.fail(p.name, "may write to its root file system")
		}
	}
	if s := p.spec.SecurityContext; s == nil || s.RunAsNonRoot == nil || !*s.RunAsNonRoot {
		c.fail(p.name, "may run as root")
	}
}
