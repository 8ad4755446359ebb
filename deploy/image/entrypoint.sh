#!/bin/sh
# Spark on Kubernetes starts its executors with the one argument `executor` and says the rest in variables, as its own image
# expects it. Everything else is a command.
set -eu
if [ "${1:-}" != "executor" ]; then
  exec tini -- "$@"
fi
jars=$(python -c "import pathlib, pyspark; print(pathlib.Path(pyspark.__file__).parent / 'jars')")
options=$(env | sed -n 's/^SPARK_JAVA_OPT_[0-9]*=//p')
# shellcheck disable=SC2086  # each option is a word of its own
exec tini -- java $options "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
  -cp "${SPARK_CLASSPATH:-}:$jars/*:$HEADRACE_JARS/spark/*" \
  org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
  --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \
  --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" \
  --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME"
