package v1alpha1

import (
	"fmt"
	"strings"
	"testing"
)

// BenchmarkDecodeDelivery is what a harness does with a delivery whose proof held.
func BenchmarkDecodeDelivery(b *testing.B) {
	for _, kib := range []int{1, 64} {
		b.Run(fmt.Sprintf("goal=%dKiB", kib), func(b *testing.B) {
			seconds := int64(60)
			body, err := Encode(DeliveryRequest{
				APIVersion: APIVersion, Run: RunRef{Namespace: "team", Name: "review-1", UID: "5d1f0d4e-6b0e-4c5d-9a35-0f8d6a1b2c3d"}, Attempt: 1,
				Target: Target{Name: "reviewer-1", UID: "0d1f0d4e-6b0e-4c5d-9a35-0f8d6a1b2c3d"}, Journal: "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
				Goal: strings.Repeat("Review it. ", kib<<10/11), Limits: &Limits{ActiveSeconds: &seconds},
			})
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if _, p := DecodeDelivery(body); p != nil {
					b.Fatal(p)
				}
			}
		})
	}
}
