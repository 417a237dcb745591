// Package kubernetes holds the manifests of the services, and checks what can be
// checked of them without a cluster: that every region builds and decodes strictly
// into the types of Kubernetes, that the objects fit each other and the services,
// and that each container starts with the very arguments, environment and files of
// its pod.
package kubernetes

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/json"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

var regions = []string{"us-east", "eu-west", "ap-south"}

// cluster is what is applied to the cluster of a region.
type cluster struct {
	namespaces  []*corev1.Namespace
	accounts    []*corev1.ServiceAccount
	configs     []*corev1.ConfigMap
	services    []*corev1.Service
	deployments []*appsv1.Deployment
	budgets     []*policyv1.PodDisruptionBudget
	scalers     []*autoscalingv2.HorizontalPodAutoscaler
	networks    []*networkingv1.NetworkPolicy
}

// add decodes an object into the type of its kind; a field that it has not is an error.
func (c *cluster) add(text []byte) error {
	var kind metav1.TypeMeta
	if err := yaml.Unmarshal(text, &kind); err != nil {
		return err
	}
	switch kind.APIVersion + " " + kind.Kind {
	case "v1 Namespace":
		return decode(text, &c.namespaces)
	case "v1 ServiceAccount":
		return decode(text, &c.accounts)
	case "v1 ConfigMap":
		return decode(text, &c.configs)
	case "v1 Service":
		return decode(text, &c.services)
	case "apps/v1 Deployment":
		return decode(text, &c.deployments)
	case "policy/v1 PodDisruptionBudget":
		return decode(text, &c.budgets)
	case "autoscaling/v2 HorizontalPodAutoscaler":
		return decode(text, &c.scalers)
	case "networking.k8s.io/v1 NetworkPolicy":
		return decode(text, &c.networks)
	}
	return fmt.Errorf("%s %s: no such kind is checked here", kind.APIVersion, kind.Kind)
}

func decode[T any](text []byte, all *[]*T) error {
	object := new(T)
	asJSON, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return err
	}
	// As the API server does: encoding/json would take targetport for targetPort.
	strict, err := json.UnmarshalStrict(asJSON, object)
	if err := errors.Join(append(strict, err)...); err != nil {
		return fmt.Errorf("%w in\n%s", err, text)
	}
	*all = append(*all, object)
	return nil
}

// byPassword is a region's other half of the ways that README.md offers: its rules
// come from the rule file, and its pods sign in to the store by a password.
func byPassword(t *testing.T, path, text string) string {
	t.Helper()
	replace := func(old, by string) {
		if !strings.Contains(text, old) {
			t.Errorf("%s lacks %q", path, old)
		}
		text = strings.Replace(text, old, by, 1)
	}
	switch filepath.Base(path) {
	case "kustomization.yaml":
		replace("  - ../../components/rules-from-service\n", "  - ../../components/store-by-password\n")
	case "limiter.env":
		replace("SHIPLANE_STORE_IAM=", "#")
	}
	return text
}

// build builds a region; fromFile: in its other half.
func build(t *testing.T, region string, fromFile bool) *cluster {
	t.Helper()
	inMemory := filesys.MakeFsInMemory()
	if err := inMemory.MkdirAll("/k"); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(".", func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if fromFile && strings.HasPrefix(path, "regions/"+region+"/") {
			text = []byte(byPassword(t, path, string(text)))
		}
		if err != nil {
			return err
		}
		return inMemory.WriteFile("/k/"+path, text)
	})
	if err != nil {
		t.Fatal(err)
	}
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(inMemory, "/k/regions/"+region)
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{}
	for _, object := range built.Resources() {
		text, err := object.AsYAML()
		if err != nil {
			t.Fatal(err)
		}
		if object.GetKind() != "Namespace" && object.GetNamespace() != "shiplane" {
			t.Errorf("%s %s is in namespace %q", object.GetKind(), object.GetName(), object.GetNamespace())
		}
		if err := c.add(text); err != nil {
			t.Error(err)
		}
	}
	return c
}

// forEach runs check on each region: with its rules from the service and the pods' role
// at the store, and with the rule file and a password.
func forEach(t *testing.T, check func(t *testing.T, region string, c *cluster)) {
	t.Helper()
	for _, region := range regions {
		for how, fromFile := range map[string]bool{"rules from the service": false, "rules from the file": true} {
			t.Run(region+"/"+how, func(t *testing.T) { check(t, region, build(t, region, fromFile)) })
		}
	}
}

// A field that Kubernetes does not know, and a kind that nothing here checks, are refused.
func TestUnknownFieldsAndKindsAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"{apiVersion: apps/v1, kind: Deployment, spec: {replica: 3}}":                                          `unknown field "spec.replica"`,
		"{apiVersion: v1, kind: Service, spec: {ports: [{port: 80, targetport: 8080}]}}":                       "targetport",
		"{apiVersion: v1, kind: Service, spec: {ports: [{port: eighty}]}}":                                     "port",
		"{apiVersion: policy/v1beta1, kind: PodDisruptionBudget, metadata: {name: x}}":                         "no such kind",
		"{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, spec: {ingress: [{ports: [{ports: 8080}]}]}}": "ports",
	} {
		if err := (&cluster{}).add([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want an error with %s", text, err, want)
		}
	}
}

// Only the home region has the rules service; the others reach it by its name.
func TestRulesLiveInTheHomeRegion(t *testing.T) {
	forEach(t, func(t *testing.T, region string, c *cluster) {
		home := region == "us-east"
		if got := c.deployment("rules") != nil; got != home {
			t.Errorf("rules service here: %v, want %v", got, home)
		}
		for _, s := range c.services {
			if s.Name == "rules" && (s.Spec.Type == corev1.ServiceTypeExternalName) == home {
				t.Errorf("the service rules is of type %q", s.Spec.Type)
			}
		}
		if got := c.environment(c.deployment("gateway"))["SHIPLANE_REGION"]; got != region {
			t.Errorf("gateways count in region %q", got)
		}
	})
}

// The README names every secret with its files: what must be there beforehand.
func TestReadmeNamesTheSecrets(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, files := range secrets {
		if row := fmt.Sprintf("| `%s` | `%s` |", name, strings.Join(files, "`, `")); !strings.Contains(string(text), row) {
			t.Errorf("README.md lacks the row %q", row)
		}
	}
}
