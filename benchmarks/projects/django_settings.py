"""The settings of the project that django-celery-beat is measured with."""

from benchmarks.projects.spec import SPEC

SECRET_KEY = "of a benchmark"
USE_TZ = True
INSTALLED_APPS = ["django_celery_beat"]
DATABASES = {"default": SPEC["database"]}
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
