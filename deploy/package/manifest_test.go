package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"
)

// TestManifests checks that the manifests have only fields of the Kubernetes API, and that their selectors,
// volumes, ports and references match. It also checks the user of the pod and the read-only root.
func TestManifests(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "kubernetes", "certvault.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var deployment appsv1.Deployment
	var service corev1.Service
	var config corev1.ConfigMap
	var ingress networkingv1.Ingress
	var budget policyv1.PodDisruptionBudget
	targets := map[string]any{
		"apps/v1 Deployment": &deployment, "v1 Service": &service, "v1 ConfigMap": &config,
		"networking.k8s.io/v1 Ingress": &ingress, "policy/v1 PodDisruptionBudget": &budget,
	}
	for _, document := range bytes.Split(text, []byte("\n---\n")) {
		var kind struct {
			APIVersion string `json:"apiVersion"`
			Kind       string `json:"kind"`
		}
		if err := yaml.Unmarshal(document, &kind); err != nil {
			t.Fatal(err)
		}
		name := kind.APIVersion + " " + kind.Kind
		target := targets[name]
		if target == nil {
			t.Errorf("the manifest %q is unknown or occurs twice", name)
			continue
		}
		delete(targets, name)
		if err := yaml.UnmarshalStrict(document, target); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(targets) > 0 {
		t.Errorf("the file does not contain the manifests %q", sortedKeys(targets))
	}
	labels := deployment.Spec.Template.Labels
	for name, selector := range map[string]map[string]string{
		"deployment": deployment.Spec.Selector.MatchLabels, "service": service.Spec.Selector, "budget": budget.Spec.Selector.MatchLabels,
	} {
		for key, value := range selector {
			if labels[key] != value {
				t.Errorf("label %s of the pods = %q, want %q as in the selector of the %s", key, labels[key], value, name)
			}
		}
	}
	pod := deployment.Spec.Template.Spec
	container := pod.Containers[0]
	if *pod.SecurityContext.RunAsUser != imageUser || !*container.SecurityContext.ReadOnlyRootFilesystem {
		t.Errorf("the user of the pod = %d, want %d and a read-only root", *pod.SecurityContext.RunAsUser, imageUser)
	}
	volumes := map[string]bool{}
	for _, v := range pod.Volumes {
		volumes[v.Name] = true
	}
	for _, m := range container.VolumeMounts {
		if !volumes[m.Name] {
			t.Errorf("the container mounts %s, which is not a volume of the pod", m.Name)
		}
	}
	ports := map[string]bool{}
	for _, p := range container.Ports {
		ports[p.Name] = true
	}
	for _, p := range service.Spec.Ports {
		if !ports[p.TargetPort.StrVal] {
			t.Errorf("the service uses the port %s, which the container does not have", p.TargetPort.StrVal)
		}
	}
	if container.EnvFrom[0].ConfigMapRef.Name != config.Name || ingress.Spec.Rules[0].HTTP.Paths[0].Backend.Service.Name != service.Name {
		t.Error("the container does not refer to the ConfigMap, or the ingress does not refer to the service")
	}
}

// TestCompose checks the compose file against the schema of its specification.
func TestCompose(t *testing.T) {
	file := filepath.Join("..", "compose.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	project, err := loader.LoadWithContext(context.Background(), types.ConfigDetails{
		ConfigFiles: []types.ConfigFile{{Filename: file, Content: text}},
		Environment: types.Mapping{"CERTVAULT_VERSION": "0.1.0", "CERTVAULT_BASE_URL": "https://vault.example.org", "POSTGRES_PASSWORD": "secret"},
	})
	if err != nil {
		t.Fatal(err)
	}
	vault, err := project.GetService("vault")
	if err != nil {
		t.Fatal(err)
	}
	if !vault.ReadOnly || vault.Image != "certvault:0.1.0" || len(vault.CapDrop) != 1 {
		t.Errorf("the vault is %+v, want image certvault:0.1.0 with a read-only root and no capabilities", vault)
	}
}
