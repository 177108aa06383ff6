"""Makes images with SDXL: two steps of its denoiser, whose steps are alike, and its decoder."""

from __future__ import annotations

import torch
from diffusers import AutoencoderKL, EulerDiscreteScheduler, StableDiffusionXLPipeline, UNet2DConditionModel
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection

WORDS = 77
LARGE = CLIPTextConfig(
    hidden_size=768, intermediate_size=3072, num_hidden_layers=12, num_attention_heads=12, projection_dim=768
)
HUGE = CLIPTextConfig(
    hidden_size=1280, intermediate_size=5120, num_hidden_layers=32, num_attention_heads=20, projection_dim=1280
)


def denoiser() -> UNet2DConditionModel:
    return UNet2DConditionModel(
        sample_size=128,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"),
        block_out_channels=(320, 640, 1280),
        transformer_layers_per_block=(1, 2, 10),
        attention_head_dim=(5, 10, 20),
        cross_attention_dim=2048,
        addition_embed_type="text_time",
        addition_time_embed_dim=256,
        projection_class_embeddings_input_dim=2816,
        use_linear_projection=True,
    )


def autoencoder() -> AutoencoderKL:
    return AutoencoderKL(
        down_block_types=("DownEncoderBlock2D",) * 4,
        up_block_types=("UpDecoderBlock2D",) * 4,
        block_out_channels=(128, 256, 512, 512),
        layers_per_block=2,
        sample_size=1024,
        force_upcast=True,
    )


def make_images(images: int = 4, fp16: bool = False) -> None:
    dtype = torch.half if fp16 else torch.float
    with torch.device("cuda"):
        parts = [autoencoder(), CLIPTextModel(LARGE), CLIPTextModelWithProjection(HUGE), denoiser()]
        vae, text, text_2, unet = (part.to(dtype) for part in parts)
    del parts
    scheduler = EulerDiscreteScheduler(beta_schedule="scaled_linear", timestep_spacing="leading", steps_offset=1)
    pipeline = StableDiffusionXLPipeline(vae, text, text_2, None, None, unet, scheduler, add_watermarker=False)
    pipeline.unet.set_default_attn_processor()
    prompt = torch.zeros(1, WORDS, 2048, device="cuda", dtype=dtype)
    pooled = torch.zeros(1, 1280, device="cuda", dtype=dtype)
    torch.cuda.reset_peak_memory_stats()
    pipeline(
        prompt_embeds=prompt,
        negative_prompt_embeds=prompt,
        pooled_prompt_embeds=pooled,
        negative_pooled_prompt_embeds=pooled,
        num_images_per_prompt=images,
        num_inference_steps=2,
    )
